`include "vta_params.vh"
// The compute engine: loads micro-ops and accumulators, multiplies, and has the ALU where that is no engine of its own. Tokens:
// with load, before it, and with the engine behind it. Cycles of a step of GEMM, from the one in which it is issued on:
//   1    its micro-op is read; numbers of tiles are made from it
//   2    an input and a weight tile are read   3  they are there   4  so are products
//   SUM  their sums are there, and the accumulator   SUM + 1  the new one is written
module vta_compute (
    input wire clock,
    input wire reset,
    input wire valid,
    input wire [127:0] instruction,
    output wire took,  // the next instruction is wanted
    output wire finished,
    input wire prev_available,
    input wire next_available,
    input wire prev_place,
    input wire next_place,
    output wire prev_pop,
    output wire next_pop,
    output wire prev_push,
    output wire next_push,
    // The channel.
    output wire request,
    output wire [31:0] address,
    output wire [7:0] beats,
    input wire accepted,
    input wire read,
    input wire read_last,
    input wire [`VTA_BUS_BITS-1:0] read_data,
    // The load engine's memories.
    output wire [`VTA_INP_LOG-1:0] inp_tile,
    input wire [`VTA_INP_TILE_BITS-1:0] inp_data,
    output wire [`VTA_WGT_LOG-1:0] wgt_tile,
    input wire [`VTA_WGT_TILE_BITS-1:0] wgt_data,
    // Micro-ops of the ALU as an engine.
    /* verilator lint_off UNUSED */
    input wire alu_uop_read,
    input wire [`VTA_UOP_LOG-1:0] alu_uop_number,
    /* verilator lint_on UNUSED */
    output wire [31:0] alu_uop,
    // Accumulators (vta_acc.v).
    output wire [`VTA_ACC_LANES-1:0] write,
    output wire [`VTA_ACC_LOG-1:0] write_tile,
    output wire [`VTA_ACC_LANES*`VTA_ACC_TILE_BITS-1:0] write_data,
    output wire sum_read,
    output wire [`VTA_ACC_LOG-1:0] sum_tile,
    input wire [`VTA_ACC_TILE_BITS-1:0] sum_data,
    input wire load_refused,  // the ALU writes to the same quarter
    // What the ALU's pass in cycle 2, with as many operations before its last, would write together with.
    /* verilator lint_off UNUSED */
    input wire [2:0] alu_operations,
    /* verilator lint_on UNUSED */
    output wire meets,
    output wire [`VTA_ACC_LOG-1:0] meets_tile,
    // The ALU, where it is no engine: its instruction is this engine's.
    output wire alu_working,
    output wire alu_clear,
    input wire alu_chains,
    input wire alu_last
);
    localparam SUM = `VTA_TREE + 4;
    localparam UOP_LANES = `VTA_LANES(32);

    wire [2:0] opcode = instruction[`F_OPCODE];
    wire [2:0] memory = instruction[`F_MEMORY];
    wire is_load = opcode == `OP_LOAD;
    wire is_gemm = opcode == `OP_GEMM;
    wire is_alu = opcode == `OP_ALU;
    wire working, last, is_last_move, issued, ended;
    reg [6:0] drained;

    assign finished = opcode == `OP_FINISH;
    assign alu_working = working && is_alu && valid;
    assign alu_clear = reset || ended;
    assign took = ended || alu_chains;
    assign last = is_load ? is_last_move : is_gemm ? issued && drained + 1 == `VTA_PIPELINE : !is_alu || alu_last;

    vta_control control (
        .clock(clock),
        .reset(reset),
        .valid(valid),
        .pop_prev(instruction[`F_POP_PREV]),
        .pop_next(instruction[`F_POP_NEXT]),
        .push_prev(instruction[`F_PUSH_PREV]),
        .push_next(instruction[`F_PUSH_NEXT]),
        .prev_available(prev_available),
        .next_available(next_available),
        .prev_place(prev_place),
        .next_place(next_place),
        .prev_pop(prev_pop),
        .next_pop(next_pop),
        .prev_push(prev_push),
        .next_push(next_push),
        .working(working),
        .last(last),
        .ended(ended)
    );

    always @(posedge clock)
        if (reset || ended) drained <= 0;
        else if (issued && working) drained <= drained + 1;

    // ---- loads ----
    wire wanted, asked, beat_valid, take, moves, zero;
    wire [31:0] wanted_address;
    wire [7:0] wanted_beats;
    wire [`VTA_BUS_BITS-1:0] beat;
    wire [6:0] count, lane;
    /* verilator lint_off UNUSED */
    wire [15:0] tile;
    /* verilator lint_on UNUSED */
    wire is_uop = memory == `MEMORY_UOP;
    wire is_bytes = `VTA_BYTES && memory == `MEMORY_ACC_BYTES;
    wire [4:0] tile_log = is_uop ? 5'd2 : is_bytes ? `VTA_ACC8_BYTES_LOG : `VTA_ACC_BYTES_LOG;
    wire moving = working && is_load && !(load_refused && !is_uop);
    wire asking = working && is_load;

    vta_rows rows (
        .clock(clock),
        .working(asking),
        .clear(reset || ended),
        .dram_base(instruction[`F_DRAM_BASE]),
        .y_size(instruction[`F_Y_SIZE]),
        .x_size(instruction[`F_X_SIZE]),
        .x_stride(instruction[`F_X_STRIDE]),
        .tile_log(tile_log),
        .wanted(wanted),
        .address(wanted_address),
        .beats(wanted_beats),
        .asked(asked)
    );

    vta_reader reader (
        .clock(clock),
        .reset(reset),
        .wanted(wanted),
        .wanted_address(wanted_address),
        .wanted_beats(wanted_beats),
        .asked(asked),
        .request(request),
        .address(address),
        .beats(beats),
        .accepted(accepted),
        .read(read),
        .read_last(read_last),
        .read_data(read_data),
        .beat_valid(beat_valid),
        .beat(beat),
        .take(take)
    );

    vta_mover mover (
        .clock(clock),
        .working(moving),
        .clear(reset || ended),
        .instruction(instruction),
        .tile_log(tile_log),
        .beat_valid(beat_valid),
        .take(take),
        .last(is_last_move),
        .write(moves),
        .zero(zero),
        .tile(tile),
        .count(count),
        .lane(lane)
    );

    wire [UOP_LANES-1:0] uop_write;
    wire [UOP_LANES*32-1:0] uop_tiles;
    wire [`VTA_ACC_LANES-1:0] load_write;
    wire [`VTA_ACC_LANES*`VTA_ACC_TILE_BITS-1:0] load_tiles, word_tiles, byte_tiles;
    vta_mask #(.TILES(UOP_LANES)) uop_mask (.write(moves && is_uop), .count(count), .mask(uop_write));
    vta_tiles #(.TILE_BITS(32)) uop_assembly (
        .clock(clock), .take(take), .beat(beat), .zero(zero), .lane(lane), .tiles(uop_tiles)
    );
    vta_mask #(.TILES(`VTA_ACC_LANES)) acc_mask (.write(moves && !is_uop), .count(count), .mask(load_write));
    localparam WORD_LANES = `VTA_LANES(`VTA_ACC_TILE_BITS);
    vta_tiles #(.TILE_BITS(`VTA_ACC_TILE_BITS)) acc_assembly (
        .clock(clock),
        .take(take),
        .beat(beat),
        .zero(zero),
        .lane(lane),
        .tiles(word_tiles[WORD_LANES*`VTA_ACC_TILE_BITS-1:0])
    );
    genvar k;
    generate
        if (`VTA_ACC_LANES > WORD_LANES) begin : more
            assign word_tiles[`VTA_ACC_LANES*`VTA_ACC_TILE_BITS-1:WORD_LANES*`VTA_ACC_TILE_BITS] = 0;
        end
        if (`VTA_BYTES) begin : bytes_of
            wire [`VTA_ACC_LANES*`VTA_ELEMENTS*8-1:0] numbers;
            vta_tiles #(.TILE_BITS(`VTA_ELEMENTS * 8)) assembly (
                .clock(clock), .take(take), .beat(beat), .zero(zero), .lane(lane), .tiles(numbers)
            );
            for (k = 0; k < `VTA_ACC_LANES * `VTA_ELEMENTS; k = k + 1) begin : element
                assign byte_tiles[k*32+:32] = {{24{numbers[k*8+7]}}, numbers[k*8+:8]};
            end
        end else begin : none
            assign byte_tiles = 0;
        end
    endgenerate
    assign load_tiles = is_bytes ? byte_tiles : word_tiles;

    // ---- steps of GEMM: what is issued, and numbers of tiles ----
    wire issue, first, loops_first;
    wire [`VTA_UOP_LOG-1:0] gemm_uop_number;
    /* verilator lint_off UNUSED */
    wire [31:0] uop;
    /* verilator lint_on UNUSED */
    wire [`VTA_ACC_LOG-1:0] dst_add;
    wire [`VTA_SRC_LOG-1:0] src_add;
    wire [`VTA_WGT_LOG-1:0] wgt_add;
    wire unused_pass;

    vta_loops loops (
        .clock(clock),
        .working(working && is_gemm),
        .clear(reset || ended),
        .instruction(instruction),
        .issue(issue),
        .uop(gemm_uop_number),
        .dst(dst_add),
        .src(src_add),
        .wgt(wgt_add),
        .pass(unused_pass),
        .first(loops_first),
        .issued(issued)
    );
    assign first = loops_first && `VTA_FIRST && instruction[`F_FIRST];

    // Where the ALU is an engine it has micro-ops of its own, the same; else this engine reads them for it.
    wire shared_read = `VTA_ENGINE || !is_alu || alu_uop_read;
    wire [`VTA_UOP_LOG-1:0] shared_number = `VTA_ENGINE || !is_alu ? gemm_uop_number : alu_uop_number;
    vta_sram #(
        .WIDTH(32),
        .TILES(1 << `VTA_UOP_LOG),
        .BANKS(UOP_LANES),
        .WRITE_TILES(UOP_LANES)
    ) uops (
        .clock(clock),
        .write(uop_write),
        .write_tile(tile[`VTA_UOP_LOG-1:0]),
        .write_data(uop_tiles),
        .read(shared_read),
        .read_tile(shared_number),
        .read_data(uop)
    );
    generate
        if (`VTA_ENGINE) begin : of_alu
            vta_sram #(
                .WIDTH(32),
                .TILES(1 << `VTA_UOP_LOG),
                .BANKS(UOP_LANES),
                .WRITE_TILES(UOP_LANES)
            ) uops (
                .clock(clock),
                .write(uop_write),
                .write_tile(tile[`VTA_UOP_LOG-1:0]),
                .write_data(uop_tiles),
                .read(alu_uop_read),
                .read_tile(alu_uop_number),
                .read_data(alu_uop)
            );
        end else begin : with_alu
            assign alu_uop = uop;
        end
    endgenerate

    // What of a step is known in cycle n of it.
    reg [SUM+1:1] at;
    reg [SUM:1] overwrites;
    reg [`VTA_ACC_LOG-1:0] dst_of[1:SUM+1];
    reg [`VTA_SRC_LOG-1:0] src_of[1:2];
    reg [`VTA_WGT_LOG-1:0] wgt_of[1:2];
    integer n;
    always @(posedge clock) begin
        at <= reset ? 0 : {at[SUM:1], issue};
        overwrites <= {overwrites[SUM-1:1], first};
        dst_of[1] <= dst_add;
        src_of[1] <= src_add;
        wgt_of[1] <= wgt_add;
        dst_of[2] <= dst_of[1] + uop[`U_DST];
        src_of[2] <= src_of[1] + uop[`U_SRC];
        wgt_of[2] <= wgt_of[1] + uop[`U_WGT];
        for (n = 3; n <= SUM + 1; n = n + 1) dst_of[n] <= dst_of[n-1];
    end

    // ---- sums ----
    wire [`VTA_ELEMENTS*`VTA_SUM_BITS-1:0] sums;
    reg [`VTA_ACC_TILE_BITS-1:0] new_sums;

    assign inp_tile = src_of[2][`VTA_INP_LOG-1:0];
    assign wgt_tile = wgt_of[2];
    vta_gemm gemm (
        .clock(clock),
        .inp(inp_data),
        .wgt(wgt_data),
        .sums(sums)
    );
    wire is_reset = instruction[`F_RESET];
    generate
        for (k = 0; k < `VTA_ELEMENTS; k = k + 1) begin : accumulate
            wire signed [`VTA_SUM_BITS-1:0] sum = sums[k*`VTA_SUM_BITS+:`VTA_SUM_BITS];
            wire [31:0] old = overwrites[SUM] ? 32'd0 : sum_data[k*32+:32];
            always @(posedge clock)
                new_sums[k*32+:32] <= is_reset ? 32'd0 : old + {{(32 - `VTA_SUM_BITS) {sum[`VTA_SUM_BITS-1]}}, sum};
        end
    endgenerate
    assign sum_read = at[SUM-1];
    assign sum_tile = dst_of[SUM-1];

    // The step that is written when the ALU's pass, now in cycle 2, is: that pass has 2 cycles more, and one for each operation
    // before its last.
    generate
        if (`VTA_CHAIN && `VTA_ENGINE) begin : chained
            wire [3:0] steps = {at[SUM-4], at[SUM-3], at[SUM-2], at[SUM-1]};
            assign meets = steps[alu_operations[1:0]];
            assign meets_tile = alu_operations == 0 ? dst_of[SUM-1] : alu_operations == 1 ? dst_of[SUM-2] :
                alu_operations == 2 ? dst_of[SUM-3] : dst_of[SUM-4];
        end else begin : single
            assign meets = at[SUM-1];
            assign meets_tile = dst_of[SUM-1];
        end
    endgenerate

    assign write = load_write | {{(`VTA_ACC_LANES - 1) {1'b0}}, at[SUM+1]};
    assign write_tile = is_load ? tile[`VTA_ACC_LOG-1:0] : dst_of[SUM+1];
    generate
        if (`VTA_ACC_LANES > 1) begin : lanes
            assign write_data = is_load ? load_tiles : {{(`VTA_ACC_LANES - 1) * `VTA_ACC_TILE_BITS{1'b0}}, new_sums};
        end else begin : lane_alone
            assign write_data = is_load ? load_tiles : new_sums;
        end
    endgenerate
endmodule
