`include "vta_params.vh"
// The passes of a GEMM or ALU instruction: the outer loop, the inner one, micro-ops, and parts of a tile, the first around all
// others. Issues one pass in every INTERVAL cycles.
module vta_loops #(
    parameter PASSES = 1,
    parameter INTERVAL = 1,
    parameter PASS_LOG = PASSES > 1 ? $clog2(PASSES) : 1
) (
    input wire clock,
    input wire working,
    input wire clear,
    /* verilator lint_off UNUSED */
    input wire [127:0] instruction,
    /* verilator lint_on UNUSED */
    output wire issue,
    output wire [`VTA_UOP_LOG-1:0] uop,
    output reg [`VTA_ACC_LOG-1:0] dst,  // what the loops add to the micro-op's tiles
    output reg [`VTA_SRC_LOG-1:0] src,
    output reg [`VTA_WGT_LOG-1:0] wgt,
    output wire [PASS_LOG-1:0] pass,
    output wire first,  // in the first round of each loop whose dst factor is 0
    output reg issued  // all, and their cycles are over
);
    localparam WAIT_LOG = INTERVAL > 1 ? $clog2(INTERVAL) : 1;
    localparam integer WAITS = INTERVAL - 1, PARTS = PASSES - 1;
    localparam [WAIT_LOG-1:0] LAST_WAIT = WAITS[WAIT_LOG-1:0];
    localparam [PASS_LOG-1:0] LAST_PASS = PARTS[PASS_LOG-1:0];

    wire [`VTA_UOP_LOG-1:0] uop_bgn = instruction[`F_UOP_BGN];
    wire [`VTA_UOP_LOG:0] uop_end = instruction[`F_UOP_END];
    wire [13:0] iter_out = instruction[`F_ITER_OUT], iter_in = instruction[`F_ITER_IN];
    wire [`VTA_ACC_LOG-1:0] dst_out = instruction[`F_DST_OUT], dst_in = instruction[`F_DST_IN];
    wire [`VTA_SRC_LOG-1:0] src_out = instruction[`F_SRC_OUT], src_in = instruction[`F_SRC_IN];
    wire [`VTA_WGT_LOG-1:0] wgt_out = instruction[`F_WGT_OUT], wgt_in = instruction[`F_WGT_IN];

    reg [WAIT_LOG-1:0] waited;
    reg [PASS_LOG-1:0] pass_now;
    reg [`VTA_UOP_LOG-1:0] uop_now;  // from uop_bgn on
    reg [13:0] outer, inner;
    reg [`VTA_ACC_LOG-1:0] dst_row;  // at the begin of this round of the outer loop
    reg [`VTA_SRC_LOG-1:0] src_row;
    reg [`VTA_WGT_LOG-1:0] wgt_row;

    wire step = working && !issued && waited == LAST_WAIT;
    wire ends_uop = step && pass_now == LAST_PASS;
    wire ends_uops = ends_uop && {1'b0, uop} + 1 == uop_end;
    wire ends_inner = ends_uops && inner + 1 == iter_in;
    wire ends_outer = ends_inner && outer + 1 == iter_out;

    assign uop = uop_bgn + uop_now;
    assign issue = working && !issued && waited == 0;
    assign pass = pass_now;
    assign first = (outer == 0 || dst_out != 0) && (inner == 0 || dst_in != 0);

    always @(posedge clock)
        if (clear) begin
            waited <= 0;
            pass_now <= 0;
            uop_now <= 0;
            outer <= 0;
            inner <= 0;
            dst <= 0;
            src <= 0;
            wgt <= 0;
            dst_row <= 0;
            src_row <= 0;
            wgt_row <= 0;
            issued <= 0;
        end else begin
            if (working && !issued) waited <= step ? 0 : waited + 1;
            if (step) pass_now <= ends_uop ? 0 : pass_now + 1;
            if (ends_uop) uop_now <= ends_uops ? 0 : uop_now + 1;
            if (ends_uops) begin
                inner <= ends_inner ? 0 : inner + 1;
                dst <= ends_inner ? dst_row + dst_out : dst + dst_in;
                src <= ends_inner ? src_row + src_out : src + src_in;
                wgt <= ends_inner ? wgt_row + wgt_out : wgt + wgt_in;
            end
            if (ends_inner) begin
                outer <= outer + 1;
                dst_row <= dst_row + dst_out;
                src_row <= src_row + src_out;
                wgt_row <= wgt_row + wgt_out;
            end
            if (ends_outer) issued <= 1;
        end
endmodule
