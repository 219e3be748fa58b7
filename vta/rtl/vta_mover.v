`include "vta_params.vh"
// Goes through the positions of a LOAD, row by row and with the padding: a tile of zeros takes a cycle, as does each beat of a
// tile from memory; of a beat that holds several tiles, all that are wanted are written at once.
module vta_mover (
    input wire clock,
    input wire working,
    input wire clear,  // back to the first position, for the next instruction
    /* verilator lint_off UNUSED */
    input wire [127:0] instruction,
    /* verilator lint_on UNUSED */
    input wire [4:0] tile_log,  // bytes of a tile as a power of two
    input wire beat_valid,
    output wire take,
    output wire last,  // of all positions
    output wire write,  // tiles are complete
    output wire zero,
    output wire [15:0] tile,  // the first of them
    output wire [6:0] count,
    output wire [6:0] lane  // its place in the beat, where that holds several
);
    localparam SB = `VTA_SIZE_BITS, PB = `VTA_PART_OF_BITS;

    // No legal instruction has more rows or columns than the largest memory has tiles.
    /* verilator lint_off UNUSED */
    wire [16:0] y_size = {1'b0, instruction[`F_Y_SIZE]}, x_size = {1'b0, instruction[`F_X_SIZE]};
    /* verilator lint_on UNUSED */
    wire [3:0] y_pad_0 = instruction[`F_Y_PAD_0], y_pad_1 = instruction[`F_Y_PAD_1];
    wire [3:0] x_pad_0 = instruction[`F_X_PAD_0], x_pad_1 = instruction[`F_X_PAD_1];
    // Beats of a tile, or tiles of a beat, without one.
    wire [PB-1:0] last_part = ~({PB{1'b1}} << (tile_log > `VTA_BUS_LOG ? tile_log - `VTA_BUS_LOG : 5'd0));
    /* verilator lint_off UNSIGNED */
    wire [6:0] last_lane = ~(7'h7f << (tile_log < `VTA_BUS_LOG ? `VTA_BUS_LOG - tile_log : 5'd0));
    /* verilator lint_on UNSIGNED */

    reg [SB-1:0] row, column;
    reg [PB-1:0] part;
    reg [15:0] done;  // tiles
    reg [5:0] row_lane;  // of the row's first tile, from that of the first row on

    wire [SB-1:0] y_begin = {{(SB - 4) {1'b0}}, y_pad_0}, y_end = y_begin + y_size[SB-1:0];
    wire [SB-1:0] x_begin = {{(SB - 4) {1'b0}}, x_pad_0}, x_end = x_begin + x_size[SB-1:0];
    wire [SB-1:0] rows = y_end + {{(SB - 4) {1'b0}}, y_pad_1}, columns = x_end + {{(SB - 4) {1'b0}}, x_pad_1};
    wire nothing = x_size[SB-1:0] == 0 || rows == 0;
    wire is_padding = row < y_begin || row >= y_end || column < x_begin || column >= x_end;
    /* verilator lint_off UNUSED */
    wire [31:0] dram_base = instruction[`F_DRAM_BASE];
    wire [15:0] x_stride = instruction[`F_X_STRIDE];
    wire [SB-1:0] from_begin = column - x_begin;
    /* verilator lint_on UNUSED */
    wire [6:0] lanes_left = last_lane - lane;
    wire [SB-1:0] left = x_end - column;
    wire [6:0] beat_tiles = left <= {{(SB - 7) {1'b0}}, lanes_left} ? left[6:0] : lanes_left + 1;

    assign lane = {1'b0, dram_base[5:0] + row_lane + from_begin[5:0]} & last_lane;
    assign take = working && !nothing && !is_padding && beat_valid;
    assign zero = is_padding;
    assign write = working && !nothing && (is_padding || (beat_valid && part == last_part));
    assign count = is_padding ? 7'd1 : beat_tiles;
    wire [15:0] sram_base = instruction[`F_SRAM_BASE];
    assign tile = sram_base + done;

    wire [SB-1:0] column_next = column + {{(SB - 7) {1'b0}}, count};
    wire ends_row = write && column_next == columns;
    assign last = nothing || (ends_row && row + 1 == rows);

    always @(posedge clock)
        if (clear) begin
            row <= 0;
            column <= 0;
            part <= 0;
            done <= 0;
            row_lane <= 0;
        end else begin
            if (take) part <= part == last_part ? 0 : part + 1;
            if (write) begin
                done <= done + {9'd0, count};
                column <= ends_row ? 0 : column_next;
                if (ends_row) row <= row + 1;
                if (ends_row && row >= y_begin) row_lane <= row_lane + x_stride[5:0];
            end
        end
endmodule
