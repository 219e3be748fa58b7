`include "vta_params.vh"
// The store engine: output tiles to main memory. Tokens: with the engine before it.
module vta_store (
    input wire clock,
    input wire reset,
    input wire valid,
    /* verilator lint_off UNUSED */
    input wire [127:0] instruction,
    /* verilator lint_on UNUSED */
    output wire ended,
    input wire prev_available,
    input wire prev_place,
    output wire prev_pop,
    output wire prev_push,
    // The channel.
    output wire request,
    output wire [31:0] address,
    output wire [7:0] beats,
    input wire accepted,
    output wire write_valid,
    output wire [`VTA_BUS_BITS-1:0] write_data,
    output wire [`VTA_BUS_BITS/8-1:0] write_strobe,  // bytes that are written
    output wire write_last,  // of its burst
    input wire write_ready,
    // Outputs.
    output wire [`VTA_ACC_LOG-1:0] out_tile,
    input wire [`VTA_OUT_LANES*`VTA_OUT_TILE_BITS-1:0] out_data,
    input wire [`VTA_OUT_LANES*`VTA_OUT_TILE_BITS-1:0] out_nearest
);
    localparam TB = `VTA_OUT_TILE_BITS, LANES = `VTA_OUT_LANES;

    wire working, wanted, asked;
    wire [31:0] wanted_address;
    wire [7:0] wanted_beats;
    wire unused_pop, unused_push;
    localparam SB = `VTA_SIZE_BITS;
    // No legal instruction has more rows or columns than there are tiles.
    /* verilator lint_off UNUSED */
    wire [16:0] sram_base = {1'b0, instruction[`F_SRAM_BASE]};
    wire [16:0] whole_x_size = {1'b0, instruction[`F_X_SIZE]}, whole_y_size = {1'b0, instruction[`F_Y_SIZE]};
    /* verilator lint_on UNUSED */
    wire [SB-1:0] x_size = whole_x_size[SB-1:0], y_size = whole_y_size[SB-1:0];
    wire nothing = x_size == 0 || y_size == 0;

    reg [SB-1:0] row, column, done;  // tiles; `done` of all rows
    reg [7:0] burst_beat;
    reg data_valid;  // the tiles from `done` on are read

    wire moved = write_valid && write_ready;
    wire ends_tile, ends_row;
    wire [SB-1:0] count;  // tiles that are complete with this beat
    wire step = moved && ends_tile;
    wire [SB-1:0] column_next = column + count;
    wire [SB-1:0] done_next = step ? done + count : done;
    wire last = nothing || (moved && ends_row && row + 1 == y_size);

    assign ends_row = ends_tile && column_next == x_size;
    /* verilator lint_off UNUSED */
    wire [SB-1:0] tile_next = sram_base[SB-1:0] + done_next;
    /* verilator lint_on UNUSED */
    assign out_tile = tile_next[`VTA_ACC_LOG-1:0];
    assign write_valid = working && data_valid && !nothing;
    assign write_last = burst_beat == 8'd255 || ends_row;

    vta_control control (
        .clock(clock),
        .reset(reset),
        .valid(valid),
        .pop_prev(instruction[`F_POP_PREV]),
        .pop_next(1'b0),
        .push_prev(instruction[`F_PUSH_PREV]),
        .push_next(1'b0),
        .prev_available(prev_available),
        .next_available(1'b0),
        .prev_place(prev_place),
        .next_place(1'b0),
        .prev_pop(prev_pop),
        .next_pop(unused_pop),
        .prev_push(prev_push),
        .next_push(unused_push),
        .working(working),
        .last(last),
        .ended(ended)
    );

    vta_rows rows (
        .clock(clock),
        .working(working),
        .clear(reset || ended),
        .dram_base(instruction[`F_DRAM_BASE]),
        .y_size(instruction[`F_Y_SIZE]),
        .x_size(instruction[`F_X_SIZE]),
        .x_stride(instruction[`F_X_STRIDE]),
        .tile_log(`VTA_OUT_BYTES_LOG),
        .wanted(wanted),
        .address(wanted_address),
        .beats(wanted_beats),
        .asked(asked)
    );

    vta_request requests (
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
        .took_last(moved && write_last)
    );

    wire is_nearest = `VTA_CHAIN && instruction[`F_SATURATE];
    wire [LANES*TB-1:0] tiles = is_nearest ? out_nearest : out_data;
    generate
        if (TB > `VTA_BUS_BITS) begin : parts
            localparam PARTS = TB / `VTA_BUS_BITS;
            localparam PART_LOG = $clog2(PARTS);
            localparam [PART_LOG-1:0] LAST_PART = ~0;
            reg [PART_LOG-1:0] part;
            assign ends_tile = part == LAST_PART;
            assign count = 1;
            assign write_data = tiles[part*`VTA_BUS_BITS+:`VTA_BUS_BITS];
            assign write_strobe = ~0;
            always @(posedge clock)
                if (reset || ended) part <= 0;
                else if (moved) part <= part + 1;
        end else if (LANES == 1) begin : whole
            assign ends_tile = 1;
            assign count = 1;
            assign write_data = tiles;
            assign write_strobe = ~0;
        end else begin : several
            // A beat holds several tiles: it begins with a tile that may not be its first, and ends with its last or the row's.
            localparam LANE_LOG = $clog2(LANES);
            localparam [SB-1:0] ALL = LANES;
            reg [LANE_LOG-1:0] row_lane;
            /* verilator lint_off UNUSED */
            wire [31:0] dram_base = instruction[`F_DRAM_BASE];
            wire [15:0] x_stride = instruction[`F_X_STRIDE];
            /* verilator lint_on UNUSED */
            wire [LANE_LOG-1:0] lane = dram_base[LANE_LOG-1:0] + row_lane + column[LANE_LOG-1:0];
            wire [SB-1:0] room = ALL - {{(SB - LANE_LOG) {1'b0}}, lane};
            wire [SB-1:0] left = x_size - column;
            wire [LANES*TB/8-1:0] bytes = ~({(LANES * TB / 8) {1'b1}} << (count * TB / 8));
            assign ends_tile = 1;
            assign count = left < room ? left : room;
            assign write_data = tiles << (lane * TB);
            assign write_strobe = bytes << (lane * TB / 8);
            always @(posedge clock)
                if (reset || ended) row_lane <= 0;
                else if (moved && ends_row) row_lane <= row_lane + x_stride[LANE_LOG-1:0];
        end
    endgenerate

    always @(posedge clock)
        if (reset || ended) begin
            row <= 0;
            column <= 0;
            done <= 0;
            burst_beat <= 0;
            data_valid <= 0;
        end else begin
            data_valid <= working;
            done <= done_next;
            if (moved) burst_beat <= write_last ? 0 : burst_beat + 1;
            if (step) column <= ends_row ? 0 : column_next;
            if (moved && ends_row) row <= row + 1;
        end
endmodule
