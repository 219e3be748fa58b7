`include "vta_params.vh"
// The passes of an ALU instruction, or of a chain, over accumulators. Cycles of a pass, from the one in which it is issued on:
//   1     its micro-op is read; numbers of tiles are made from it
//   2     accumulators are read, and where they are kept once the second ones in cycle 3
//   READ  both operands are there; the first operation   READ + n  the n-th operation of a chain, and the result is written
// A pass is held in cycle 2 while one before it makes an accumulator that it reads, or while it would meet GEMM in a memory.
module vta_alu_unit (
    input wire clock,
    input wire clear,
    input wire working,
    /* verilator lint_off UNUSED */
    input wire [127:0] instruction,
    /* verilator lint_on UNUSED */
    output wire chains,  // keeps the instruction's operation, and waits for the next one of the chain
    output wire last,
    output wire uop_read,
    output wire [`VTA_UOP_LOG-1:0] uop_number,
    /* verilator lint_off UNUSED */
    input wire [31:0] uop,
    /* verilator lint_on UNUSED */
    input wire refused,  // the pass in cycle 2, which has these tiles, cannot go on
    output wire [2:0] operations,  // of a chain so far, beside the last
    output wire [`VTA_ACC_LOG-1:0] dst_tile,
    output wire [`VTA_ACC_LOG-1:0] src_tile,
    input wire [`VTA_ACC_TILE_BITS-1:0] dst_data,
    input wire [`VTA_ACC_TILE_BITS-1:0] src_data,
    output reg write,
    output reg [`VTA_ACC_LOG-1:0] write_tile,
    output reg [`VTA_PASS_LOG-1:0] write_pass,
    output reg [`VTA_PART_BITS-1:0] write_data
);
    localparam READ = `VTA_ACC_TWICE ? 3 : 4;
    localparam LEVELS = `VTA_CHAIN ? 4 : 1;
    localparam DRAIN = 4;
    localparam AL = `VTA_ACC_LOG, PL = `VTA_PASS_LOG, LB = `VTA_PART_BITS;

    // ---- the operations ----
    wire [19:0] operation = {instruction[`F_OP], instruction[`F_USE_IMM], instruction[`F_IMM]};
    reg [2:0] kept;
    wire [LEVELS*20-1:0] operation_of;
    assign chains = `VTA_CHAIN && working && instruction[`F_CHAIN];
    assign operations = kept;
    genvar j, k;
    generate
        for (j = 0; j < LEVELS; j = j + 1) begin : step
            if (j + 1 < LEVELS) begin : early
                reg [19:0] mine;
                always @(posedge clock) if (chains && kept == j) mine <= operation;
                assign operation_of[j*20+:20] = kept > j ? mine : operation;
            end else begin : final_one
                assign operation_of[j*20+:20] = operation;
            end
        end
    endgenerate
    always @(posedge clock)
        if (clear) kept <= 0;
        else if (chains) kept <= kept + 1;

    // ---- passes ----
    wire runs = working && !chains;
    wire hold, issue, issued;
    wire [AL-1:0] dst_add;
    /* verilator lint_off UNUSED */
    wire [`VTA_SRC_LOG-1:0] src_add;
    /* verilator lint_on UNUSED */
    wire [`VTA_WGT_LOG-1:0] unused_wgt;
    wire [PL-1:0] pass;
    wire unused_first;
    vta_loops #(
        .PASSES(`VTA_PASSES),
        .INTERVAL(`VTA_ALU_CYCLES)
    ) loops (
        .clock(clock),
        .working(runs && !hold),
        .clear(clear),
        .instruction(instruction),
        .issue(issue),
        .uop(uop_number),
        .dst(dst_add),
        .src(src_add),
        .wgt(unused_wgt),
        .pass(pass),
        .first(unused_first),
        .issued(issued)
    );
    assign uop_read = !hold;

    reg [3:0] drained;
    wire [3:0] drain = DRAIN + {1'b0, kept};
    assign last = runs && issued && !hold && drained + 1 == drain;
    always @(posedge clock)
        if (clear) drained <= 0;
        else if (runs && issued && !hold) drained <= drained + 1;

    // What of a pass is known in cycle n of it.
    /* verilator lint_off UNUSED */
    wire [`VTA_SRC_LOG-1:0] uop_src = uop[`U_SRC];
    /* verilator lint_on UNUSED */
    reg [READ:1] at;
    reg [AL-1:0] dst_1, src_1, dst_of[2:READ], src_of[2:READ];
    reg [PL-1:0] pass_of[1:READ];
    integer n;
    always @(posedge clock) begin
        if (!hold) begin
            at[2:1] <= {at[1], issue};
            dst_1 <= dst_add;
            src_1 <= src_add[AL-1:0];
            dst_of[2] <= dst_1 + uop[`U_DST];
            src_of[2] <= src_1 + uop_src[AL-1:0];
            pass_of[1] <= pass;
            pass_of[2] <= pass_of[1];
        end
        at[3] <= at[2] && !hold;
        for (n = 3; n <= READ; n = n + 1) begin
            if (n > 3) at[n] <= at[n-1];
            dst_of[n] <= dst_of[n-1];
            src_of[n] <= src_of[n-1];
            pass_of[n] <= pass_of[n-1];
        end
        if (clear) at <= 0;
    end
    assign src_tile = src_of[2];

    // ---- operands: what memory has, or the last two results, which it may not have yet ----
    reg [1:0] result_valid;  // the last, the one before it
    reg [AL-1:0] older_tile;
    reg [PL-1:0] older_pass;
    reg [LB-1:0] older;
    wire [PL-1:0] read_pass = pass_of[READ];
    wire [LB-1:0] dst_memory, src_memory, operand, other;
    assign src_memory = src_data[read_pass*LB+:LB];
    generate
        if (`VTA_ACC_TWICE) begin : at_once
            assign dst_tile = dst_of[2];
            assign dst_memory = dst_data[read_pass*LB+:LB];
        end else begin : in_turn
            reg [LB-1:0] first;
            always @(posedge clock) first <= dst_data[pass_of[3]*LB+:LB];
            assign dst_tile = at[3] ? src_of[3] : dst_of[2];
            assign dst_memory = first;
        end
    endgenerate
    wire [1:0] is_result = {src_of[READ] == write_tile, dst_of[READ] == write_tile} &
        {2{result_valid[0] && read_pass == write_pass}};
    wire [1:0] is_older = {src_of[READ] == older_tile, dst_of[READ] == older_tile} &
        {2{result_valid[1] && read_pass == older_pass}};
    assign operand = is_result[0] ? write_data : is_older[0] ? older : dst_memory;
    assign other = is_result[1] ? write_data : is_older[1] ? older : src_memory;

    // ---- operations one behind the other: level j has the j-th, in cycle READ + j ----
    wire [LEVELS-1:0] level_at;
    wire [LEVELS*AL-1:0] level_tile;
    wire [LEVELS*PL-1:0] level_pass;
    wire [LEVELS*LB-1:0] level_value, level_other, level_result;
    wire [LEVELS-1:0] level_meets;  // the pass there makes what the one in cycle 2 reads
    generate
        for (j = 0; j < LEVELS; j = j + 1) begin : level
            wire [19:0] mine = operation_of[j*20+:20];
            for (k = 0; k < LB / 32; k = k + 1) begin : lane
                vta_alu alu (
                    .op(mine[19:17]),
                    .a(level_value[j*LB+k*32+:32]),
                    .b(mine[16] ? {{16{mine[15]}}, mine[15:0]} : level_other[j*LB+k*32+:32]),
                    .result(level_result[j*LB+k*32+:32])
                );
            end
            if (j == 0) begin : head
                assign level_at[0] = at[READ];
                assign level_tile[0+:AL] = dst_of[READ];
                assign level_pass[0+:PL] = read_pass;
                assign level_value[0+:LB] = operand;
                assign level_other[0+:LB] = other;
            end else begin : behind
                reg here;
                reg [AL-1:0] tile;
                reg [PL-1:0] pass_here;
                reg [LB-1:0] value, second;
                always @(posedge clock) begin
                    here <= level_at[j-1] && kept >= j && !clear;
                    tile <= level_tile[(j-1)*AL+:AL];
                    pass_here <= level_pass[(j-1)*PL+:PL];
                    value <= level_result[(j-1)*LB+:LB];
                    second <= level_other[(j-1)*LB+:LB];
                end
                assign level_at[j] = here;
                assign level_tile[j*AL+:AL] = tile;
                assign level_pass[j*PL+:PL] = pass_here;
                assign level_value[j*LB+:LB] = value;
                assign level_other[j*LB+:LB] = second;
            end
            assign level_meets[j] = level_at[j] && level_pass[j*PL+:PL] == pass_of[2] &&
                (level_tile[j*AL+:AL] == dst_of[2] || level_tile[j*AL+:AL] == src_of[2]);
        end
    endgenerate
    wire meets_third = at[3] && pass_of[3] == pass_of[2] && (dst_of[3] == dst_of[2] || dst_of[3] == src_of[2]);
    assign hold = at[2] && (refused || (kept != 0 && (level_meets != 0 || meets_third)));

    localparam LEVEL_LOG = LEVELS > 1 ? $clog2(LEVELS) : 1;
    wire [LEVEL_LOG-1:0] end_level = kept[LEVEL_LOG-1:0];
    wire computes = level_at[end_level];
    always @(posedge clock) begin
        write <= computes && !clear;
        if (computes) begin
            write_tile <= level_tile[end_level*AL+:AL];
            write_pass <= level_pass[end_level*PL+:PL];
            write_data <= level_result[end_level*LB+:LB];
            older_tile <= write_tile;
            older_pass <= write_pass;
            older <= write_data;
        end
        if (clear) result_valid <= 0;
        else if (computes) result_valid <= {result_valid[0], 1'b1};
    end
endmodule
