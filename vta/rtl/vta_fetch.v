`include "vta_params.vh"
// Reads the program and hands each instruction to its engine, in order: whole ones to queues, and parts of a beat where engines
// have none.
module vta_fetch #(
    parameter ENGINES = 3
) (
    input wire clock,
    input wire reset,
    input wire running,
    input wire [31:0] program_address,  // a multiple of a burst's bytes
    input wire [`VTA_COUNT_BITS-1:0] instruction_count,
    // The channel.
    output wire request,
    output wire [31:0] address,
    output wire [7:0] beats,
    input wire accepted,
    input wire read,
    input wire [`VTA_BUS_BITS-1:0] read_data,
    // Engines: load 0, compute 1, store 2, and the ALU's 3 where that is an engine.
    output wire [ENGINES-1:0] push,
    output wire [`VTA_HANDED_PARTS-1:0] part,  // bit i: part i of the instruction is handed over
    output wire [127:0] instruction,
    input wire [ENGINES-1:0] full
);
    localparam BURST = 16;  // instructions
    // What is kept: parts of instructions, whole ones, or beats that hold several.
    localparam SEVERAL = `VTA_BUS_BITS > 128 ? `VTA_BUS_BITS / 128 : 1;
    localparam PARTS = `VTA_HANDED_PARTS;
    localparam KEPT = SEVERAL * 128 / PARTS;

    localparam CB = `VTA_COUNT_BITS;
    reg [CB-1:0] asked_count, handed;
    wire [CB-1:0] left = instruction_count - asked_count;
    wire [4:0] burst = left < BURST ? left[4:0] : BURST;
    /* verilator lint_off UNUSED */
    wire [31:0] burst_beats = ({23'd0, burst, 4'd0} + (32'd1 << `VTA_BUS_LOG) - 1) >> `VTA_BUS_LOG;
    wire [31:0] behind_first = burst_beats - 1;
    /* verilator lint_on UNUSED */
    wire [ENGINES-1:0] target;
    wire asked, complete, kept_valid, take, unused_full;
    wire [KEPT-1:0] arrived, kept;
    wire ends;  // the last part
    wire handing = kept_valid && (target & full) == 0;
    wire handed_all = handing && ends;
    wire is_last = handed + 1 == instruction_count;

    vta_request requests (
        .clock(clock),
        .reset(reset),
        .wanted(running && left != 0),
        .wanted_address(program_address + {{(28 - CB) {1'b0}}, asked_count, 4'd0}),
        .wanted_beats(behind_first[7:0]),
        .asked(asked),
        .request(request),
        .address(address),
        .beats(beats),
        .accepted(accepted),
        .took_last(handed_all && (handed[3:0] == 4'd15 || is_last))
    );

    vta_queue #(
        .RAM("distributed"),  // wide and short: it would take two block RAMs
        .WIDTH(KEPT),
        .DEPTH(BURST * PARTS / SEVERAL * `VTA_REQUESTS)
    ) queue (
        .clock(clock),
        .reset(reset),
        .push(complete),
        .push_data(arrived),
        .full(unused_full),
        .valid(kept_valid),
        .data(kept),
        .take(take)
    );

    generate
        if (`VTA_BUS_BITS < 128 && PARTS == 1) begin : assembled
            localparam BEATS = 128 / `VTA_BUS_BITS;
            localparam BEAT_LOG = $clog2(BEATS);
            localparam [BEAT_LOG-1:0] LAST_BEAT = ~0;
            reg [127-`VTA_BUS_BITS:0] first_beats;
            reg [BEAT_LOG-1:0] beat;
            assign arrived = {read_data, first_beats};
            assign complete = read && beat == LAST_BEAT;
            always @(posedge clock) begin
                if (read) first_beats <= arrived[127:`VTA_BUS_BITS];
                if (reset) beat <= 0;
                else if (read) beat <= beat + 1;
            end
        end else begin : whole
            assign arrived = read_data;
            assign complete = read;
        end
        if (SEVERAL == 1) begin : alone
            assign instruction = {PARTS{kept}};
            assign take = handing;
        end else begin : several
            localparam PLACE_LOG = $clog2(SEVERAL);
            localparam [PLACE_LOG-1:0] LAST_PLACE = ~0;
            wire [PLACE_LOG-1:0] place = handed[PLACE_LOG-1:0];
            assign instruction = kept[place*128+:128];
            assign take = handing && (place == LAST_PLACE || is_last);
        end
    endgenerate

    wire [2:0] opcode = instruction[`F_OPCODE];
    wire [2:0] memory = instruction[`F_MEMORY];
    wire is_store = opcode == `OP_STORE;
    wire is_load = opcode == `OP_LOAD && (memory == `MEMORY_INP || memory == `MEMORY_WGT);
    wire is_alu = ENGINES == 4 && opcode == `OP_ALU;
    wire is_compute = !is_store && !is_load && !is_alu;
    wire [ENGINES-1:0] target_of_first;  // part, which has the opcode
    generate
        if (ENGINES == 4) begin : four
            assign target_of_first = {is_alu, is_store, is_compute, is_load};
        end else begin : three
            assign target_of_first = {is_store, is_compute, is_load};
        end
        if (PARTS == 1) begin : at_once
            assign part = 1;
            assign ends = 1;
            assign target = target_of_first;
        end else begin : by_parts
            reg [PARTS-1:0] next;
            reg [ENGINES-1:0] kept_target;
            assign part = next;
            assign ends = next[PARTS-1];
            assign target = next[0] ? target_of_first : kept_target;
            always @(posedge clock) begin
                if (reset) next <= 1;
                else if (handing) next <= {next[PARTS-2:0], ends};
                kept_target <= target;
            end
        end
    endgenerate
    assign push = handing ? target : {ENGINES{1'b0}};

    always @(posedge clock)
        if (reset) begin
            asked_count <= 0;
            handed <= 0;
        end else begin
            if (asked) asked_count <= asked_count + {{(CB - 5) {1'b0}}, burst};
            if (handed_all) handed <= handed + 1;
        end
endmodule
