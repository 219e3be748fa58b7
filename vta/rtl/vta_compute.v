`include "vta_params.vh"
// The compute engine: loads micro-ops and accumulators, multiplies, and has the ALU. Tokens: with load, before it, and store,
// behind it. Cycles of a step, from the one in which it is issued on:
//   1  its micro-op is read; numbers of tiles are made from it
//   2  of GEMM input and weights are read, of ALU accumulators (and in cycle 3 the second ones, where they are kept once)
//   GEMM  3 inputs and weights   4 products   SUM their sums, and the accumulator   SUM + 1 the new one is written
//   ALU   READ both operands are there   READ + 1 the result is written
module vta_compute (
    input wire clock,
    input wire reset,
    input wire valid,
    input wire [127:0] instruction,
    output wire ended,
    output wire finished,  // with `ended`
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
    // The store engine reads.
    input wire [`VTA_ACC_LOG-1:0] out_tile,
    output wire [`VTA_OUT_LANES*`VTA_OUT_TILE_BITS-1:0] out_data,
    output wire [`VTA_OUT_LANES*`VTA_OUT_TILE_BITS-1:0] out_nearest
);
    localparam SUM = `VTA_TREE + 4;
    localparam READ = `VTA_ALU_CYCLES == 1 ? 3 : 4;
    localparam STAGES = SUM + 1 > READ ? SUM + 1 : READ;
    localparam ALU_DRAIN = 4;
    localparam DRAIN_LOG = 7;
    localparam PASS_LOG = `VTA_PASSES > 1 ? $clog2(`VTA_PASSES) : 1;
    localparam UOP_LANES = `VTA_LANES(32);

    wire [2:0] opcode = instruction[`F_OPCODE];
    wire [2:0] memory = instruction[`F_MEMORY];
    wire is_load = opcode == `OP_LOAD;
    wire is_gemm = opcode == `OP_GEMM;
    wire is_alu = opcode == `OP_ALU;
    wire working, last, is_last_move, issued;
    reg [DRAIN_LOG-1:0] drained;
    wire [DRAIN_LOG-1:0] drain = is_alu ? ALU_DRAIN : `VTA_PIPELINE;

    assign finished = opcode == `OP_FINISH;
    assign last = is_load ? is_last_move : is_gemm || is_alu ? issued && drained + 1 == drain : 1'b1;

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
    wire wanted, asked, beat_valid, take, write, zero;
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
    wire moving = working && is_load;

    vta_rows rows (
        .clock(clock),
        .working(moving),
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
        .write(write),
        .zero(zero),
        .tile(tile),
        .count(count),
        .lane(lane)
    );

    wire [UOP_LANES-1:0] uop_write;
    wire [UOP_LANES*32-1:0] uop_tiles;
    wire [`VTA_ACC_LANES-1:0] load_write;
    wire [`VTA_ACC_LANES*`VTA_ACC_TILE_BITS-1:0] load_tiles, word_tiles, byte_tiles;
    vta_mask #(.TILES(UOP_LANES)) uop_mask (.write(write && is_uop), .count(count), .mask(uop_write));
    vta_tiles #(.TILE_BITS(32)) uop_assembly (
        .clock(clock), .take(take), .beat(beat), .zero(zero), .lane(lane), .tiles(uop_tiles)
    );
    vta_mask #(.TILES(`VTA_ACC_LANES)) acc_mask (.write(write && !is_uop), .count(count), .mask(load_write));
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

    // ---- steps: what is issued, and numbers of tiles ----
    wire issue, first;
    wire [`VTA_UOP_LOG-1:0] uop_number;
    /* verilator lint_off UNUSED */
    wire [31:0] uop;
    /* verilator lint_on UNUSED */
    wire [`VTA_ACC_LOG-1:0] dst_add;
    wire [`VTA_SRC_LOG-1:0] src_add;
    wire [`VTA_WGT_LOG-1:0] wgt_add;
    wire [PASS_LOG-1:0] pass_now;

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
        .read_tile(uop_number),
        .read_data(uop)
    );

    // GEMM has one pass a tile, in every cycle, and the ALU several: of the two sets of loops one is at work.
    wire gemm_issue, gemm_first, gemm_issued, alu_issue, alu_issued;
    wire unused_first, unused_pass;
    wire [`VTA_UOP_LOG-1:0] gemm_uop, alu_uop;
    wire [`VTA_ACC_LOG-1:0] gemm_dst, alu_dst;
    wire [`VTA_SRC_LOG-1:0] gemm_src, alu_src;
    wire [`VTA_WGT_LOG-1:0] gemm_wgt, unused_wgt;
    vta_loops gemm_loops (
        .clock(clock),
        .working(working && is_gemm),
        .clear(reset || ended),
        .instruction(instruction),
        .issue(gemm_issue),
        .uop(gemm_uop),
        .dst(gemm_dst),
        .src(gemm_src),
        .wgt(gemm_wgt),
        .pass(unused_pass),
        .first(gemm_first),
        .issued(gemm_issued)
    );
    vta_loops #(
        .PASSES(`VTA_PASSES),
        .INTERVAL(`VTA_ALU_CYCLES)
    ) alu_loops (
        .clock(clock),
        .working(working && is_alu),
        .clear(reset || ended),
        .instruction(instruction),
        .issue(alu_issue),
        .uop(alu_uop),
        .dst(alu_dst),
        .src(alu_src),
        .wgt(unused_wgt),
        .pass(pass_now),
        .first(unused_first),
        .issued(alu_issued)
    );
    assign issue = is_alu ? alu_issue : gemm_issue;
    assign issued = is_alu ? alu_issued : gemm_issued;
    assign uop_number = is_alu ? alu_uop : gemm_uop;
    assign dst_add = is_alu ? alu_dst : gemm_dst;
    assign src_add = is_alu ? alu_src : gemm_src;
    assign wgt_add = gemm_wgt;
    assign first = gemm_first && `VTA_FIRST && instruction[`F_FIRST];

    // What of a step is known in cycle n of it.
    reg [STAGES:1] at;
    reg [STAGES:1] overwrites;
    reg [`VTA_ACC_LOG-1:0] dst_of[1:STAGES];
    reg [PASS_LOG-1:0] pass_of[1:STAGES];
    reg [`VTA_SRC_LOG-1:0] src_of[1:3];
    reg [`VTA_WGT_LOG-1:0] wgt_of[1:2];
    integer n;
    always @(posedge clock) begin
        at <= reset ? 0 : {at[STAGES-1:1], issue};
        overwrites <= {overwrites[STAGES-1:1], first};
        dst_of[1] <= dst_add;
        src_of[1] <= src_add;
        wgt_of[1] <= wgt_add;
        dst_of[2] <= dst_of[1] + uop[`U_DST];
        src_of[2] <= src_of[1] + uop[`U_SRC];
        wgt_of[2] <= wgt_of[1] + uop[`U_WGT];
        src_of[3] <= src_of[2];
        pass_of[1] <= pass_now;
        for (n = 3; n <= STAGES; n = n + 1) dst_of[n] <= dst_of[n-1];
        for (n = 2; n <= STAGES; n = n + 1) pass_of[n] <= pass_of[n-1];
    end

    // ---- GEMM ----
    wire [`VTA_ELEMENTS*`VTA_SUM_BITS-1:0] sums;
    wire [`VTA_ACC_TILE_BITS-1:0] dst_data, src_data;
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
            wire [31:0] old = overwrites[SUM] ? 32'd0 : dst_data[k*32+:32];
            always @(posedge clock)
                new_sums[k*32+:32] <= is_reset ? 32'd0 : old + {{(32 - `VTA_SUM_BITS) {sum[`VTA_SUM_BITS-1]}}, sum};
        end
    endgenerate

    // ---- ALU ----
    // The last two results stand in for accumulators that were read before they were written.
    localparam LANE_BITS = `VTA_PART_BITS;
    reg result_valid, older_valid;
    reg [`VTA_ACC_LOG-1:0] result_tile, older_tile;
    reg [PASS_LOG-1:0] result_pass, older_pass;
    reg [LANE_BITS-1:0] result, older;
    reg result_write;
    wire [PASS_LOG-1:0] read_pass = pass_of[READ];
    wire [`VTA_ACC_LOG-1:0] read_dst = dst_of[READ];
    wire [`VTA_ACC_LOG-1:0] read_src;
    wire [LANE_BITS-1:0] first_memory, second_memory;
    generate
        if (`VTA_ALU_CYCLES == 1) begin : at_once
            assign read_src = src_of[3][`VTA_ACC_LOG-1:0];
            assign first_memory = dst_data[read_pass*LANE_BITS+:LANE_BITS];
        end else begin : in_turn
            reg [LANE_BITS-1:0] kept;
            reg [`VTA_ACC_LOG-1:0] src;
            always @(posedge clock) begin
                kept <= dst_data[pass_of[3]*LANE_BITS+:LANE_BITS];
                src <= src_of[3][`VTA_ACC_LOG-1:0];
            end
            assign read_src = src;
            assign first_memory = kept;
        end
    endgenerate
    assign second_memory = src_data[read_pass*LANE_BITS+:LANE_BITS];
    wire result_is_dst = result_valid && result_tile == read_dst && result_pass == read_pass;
    wire older_is_dst = older_valid && older_tile == read_dst && older_pass == read_pass;
    wire result_is_src = result_valid && result_tile == read_src && result_pass == read_pass;
    wire older_is_src = older_valid && older_tile == read_src && older_pass == read_pass;
    wire [LANE_BITS-1:0] operand = result_is_dst ? result : older_is_dst ? older : first_memory;
    wire [LANE_BITS-1:0] other = result_is_src ? result : older_is_src ? older : second_memory;
    wire [LANE_BITS-1:0] results;
    wire use_imm = instruction[`F_USE_IMM];
    wire [15:0] imm = instruction[`F_IMM];
    generate
        for (k = 0; k < LANE_BITS / 32; k = k + 1) begin : lane_of
            vta_alu alu (
                .op(instruction[`F_OP]),
                .a(operand[k*32+:32]),
                .b(use_imm ? {{16{imm[15]}}, imm} : other[k*32+:32]),
                .result(results[k*32+:32])
            );
        end
    endgenerate
    wire computes = at[READ] && is_alu;
    always @(posedge clock) begin
        result_write <= computes;
        if (computes) begin
            result <= results;
            result_tile <= read_dst;
            result_pass <= read_pass;
            older <= result;
            older_tile <= result_tile;
            older_pass <= result_pass;
        end
        if (reset || ended) begin
            result_valid <= 0;
            older_valid <= 0;
        end else if (computes) begin
            result_valid <= 1;
            older_valid <= result_valid;
        end
    end

    // ---- accumulators ----
    wire writes_sums = at[SUM+1] && is_gemm;
    wire [`VTA_ACC_LANES-1:0] acc_write = load_write | {{(`VTA_ACC_LANES - 1) {1'b0}}, writes_sums || result_write};
    wire [`VTA_PASSES-1:0] all_parts = ~0;
    wire [`VTA_PASSES-1:0] acc_part = result_write ? {{(`VTA_PASSES - 1) {1'b0}}, 1'b1} << result_pass : all_parts;
    wire [`VTA_ACC_LOG-1:0] acc_tile = is_load ? tile[`VTA_ACC_LOG-1:0] : result_write ? result_tile : dst_of[SUM+1];
    wire [`VTA_ACC_LANES*`VTA_ACC_TILE_BITS-1:0] acc_data;
    wire [`VTA_ACC_TILE_BITS-1:0] computed = result_write ? {`VTA_PASSES{result}} : new_sums;
    generate
        if (`VTA_ACC_LANES > 1) begin : lanes
            assign acc_data = is_load ? load_tiles : {{(`VTA_ACC_LANES - 1) * `VTA_ACC_TILE_BITS{1'b0}}, computed};
        end else begin : lane_alone
            assign acc_data = is_load ? load_tiles : computed;
        end
    endgenerate
    wire [`VTA_ACC_LOG-1:0] alu_read = `VTA_ALU_CYCLES != 1 && at[3] ? src_of[3][`VTA_ACC_LOG-1:0] : dst_of[2];

    vta_acc acc (
        .clock(clock),
        .write_part(acc_part),
        .write(acc_write),
        .write_tile(acc_tile),
        .write_data(acc_data),
        .dst_tile(is_alu ? alu_read : dst_of[SUM-1]),
        .dst_data(dst_data),
        .src_tile(src_of[2][`VTA_ACC_LOG-1:0]),
        .src_data(src_data),
        .out_tile(out_tile),
        .out_data(out_data),
        .out_nearest(out_nearest)
    );
endmodule
