`include "vta_params.vh"
// The load engine, with the memories of inputs and weights. Tokens: with compute, behind it.
module vta_load (
    input wire clock,
    input wire reset,
    input wire valid,
    input wire [127:0] instruction,
    output wire ended,
    input wire next_available,
    input wire next_place,
    output wire next_pop,
    output wire next_push,
    // The channel.
    output wire request,
    output wire [31:0] address,
    output wire [7:0] beats,
    input wire accepted,
    input wire read,
    input wire read_last,
    input wire [`VTA_BUS_BITS-1:0] read_data,
    // GEMM reads.
    input wire [`VTA_INP_LOG-1:0] inp_tile,
    output wire [`VTA_INP_TILE_BITS-1:0] inp_data,
    input wire [`VTA_WGT_LOG-1:0] wgt_tile,
    output wire [`VTA_WGT_TILE_BITS-1:0] wgt_data
);
    localparam INP_LANES = `VTA_LANES(`VTA_INP_TILE_BITS);
    localparam WGT_LANES = `VTA_LANES(`VTA_WGT_TILE_BITS);

    wire working, last, wanted, asked, beat_valid, take, write, zero;
    wire [`VTA_BUS_BITS-1:0] beat;
    wire [31:0] wanted_address;
    wire [7:0] wanted_beats;
    wire [6:0] count, lane;
    /* verilator lint_off UNUSED */
    wire [15:0] tile;
    /* verilator lint_on UNUSED */
    wire is_wgt = instruction[`F_MEMORY] == `MEMORY_WGT;
    wire [4:0] tile_log = is_wgt ? `VTA_WGT_BYTES_LOG : `VTA_INP_BYTES_LOG;
    wire unused_pop, unused_push;

    vta_control control (
        .clock(clock),
        .reset(reset),
        .valid(valid),
        .pop_prev(1'b0),
        .pop_next(instruction[`F_POP_NEXT]),
        .push_prev(1'b0),
        .push_next(instruction[`F_PUSH_NEXT]),
        .prev_available(1'b0),
        .next_available(next_available),
        .prev_place(1'b0),
        .next_place(next_place),
        .prev_pop(unused_pop),
        .next_pop(next_pop),
        .prev_push(unused_push),
        .next_push(next_push),
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
        .working(working),
        .clear(reset || ended),
        .instruction(instruction),
        .tile_log(tile_log),
        .beat_valid(beat_valid),
        .take(take),
        .last(last),
        .write(write),
        .zero(zero),
        .tile(tile),
        .count(count),
        .lane(lane)
    );

    wire [INP_LANES-1:0] inp_write;
    wire [INP_LANES*`VTA_INP_TILE_BITS-1:0] inp_tiles;
    vta_mask #(.TILES(INP_LANES)) inp_mask (.write(write && !is_wgt), .count(count), .mask(inp_write));
    vta_tiles #(.TILE_BITS(`VTA_INP_TILE_BITS)) inp_assembly (
        .clock(clock), .take(take), .beat(beat), .zero(zero), .lane(lane), .tiles(inp_tiles)
    );
    vta_sram #(
        .WIDTH(`VTA_INP_TILE_BITS),
        .TILES(1 << `VTA_INP_LOG),
        .BANKS(INP_LANES),
        .WRITE_TILES(INP_LANES)
    ) inp (
        .clock(clock),
        .write(inp_write),
        .write_tile(tile[`VTA_INP_LOG-1:0]),
        .write_data(inp_tiles),
        .read(1'b1),
        .read_tile(inp_tile),
        .read_data(inp_data)
    );

    wire [WGT_LANES-1:0] wgt_write;
    wire [WGT_LANES*`VTA_WGT_TILE_BITS-1:0] wgt_tiles;
    vta_mask #(.TILES(WGT_LANES)) wgt_mask (.write(write && is_wgt), .count(count), .mask(wgt_write));
    vta_tiles #(.TILE_BITS(`VTA_WGT_TILE_BITS)) wgt_assembly (
        .clock(clock), .take(take), .beat(beat), .zero(zero), .lane(lane), .tiles(wgt_tiles)
    );
    vta_sram #(
        .WIDTH(`VTA_WGT_TILE_BITS),
        .TILES(1 << `VTA_WGT_LOG),
        .BANKS(WGT_LANES),
        .WRITE_TILES(WGT_LANES)
    ) wgt (
        .clock(clock),
        .write(wgt_write),
        .write_tile(tile[`VTA_WGT_LOG-1:0]),
        .write_data(wgt_tiles),
        .read(1'b1),
        .read_tile(wgt_tile),
        .read_data(wgt_data)
    );
endmodule
