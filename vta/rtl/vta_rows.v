`include "vta_params.vh"
// The bursts of main memory that hold the rows of a LOAD or STORE, row by row, each in as few bursts as there can be.
module vta_rows (
    input wire clock,
    input wire working,
    input wire clear,  // back to the first row, for the next instruction
    input wire [31:0] dram_base,
    input wire [15:0] y_size,
    input wire [15:0] x_size,
    input wire [15:0] x_stride,
    input wire [4:0] tile_log,  // bytes of a tile as a power of two
    output wire wanted,
    output wire [31:0] address,  // of its first byte
    output wire [7:0] beats,  // and one more
    input wire asked  // the burst was asked for; on to the next one
);
    localparam BEATS_LOG = 33 - `VTA_BUS_LOG;
    localparam [BEATS_LOG-1:0] BURST = 256;

    reg [15:0] row;
    reg [31:0] row_offset;  // tiles from the first row to this one
    reg [BEATS_LOG-1:0] asked_beats;  // beats of this row

    /* verilator lint_off UNUSED */
    wire [32:0] tile = {1'b0, dram_base + row_offset};
    wire [32:0] first_byte = tile << tile_log;
    wire [32:0] end_byte = ((tile + {17'd0, x_size}) << tile_log) + (33'd1 << `VTA_BUS_LOG) - 33'd1;
    wire [BEATS_LOG-1:0] beat = first_byte[32:`VTA_BUS_LOG] + asked_beats;
    wire [BEATS_LOG-1:0] left = end_byte[32:`VTA_BUS_LOG] - beat;
    wire ends_row = left <= BURST;
    wire [BEATS_LOG-1:0] behind_first = (ends_row ? left : BURST) - 1;

    /* verilator lint_on UNUSED */

    assign wanted = working && x_size != 0 && row != y_size;
    assign address = {beat[BEATS_LOG-2:0], {`VTA_BUS_LOG{1'b0}}};
    assign beats = behind_first[7:0];

    always @(posedge clock)
        if (clear) begin
            row <= 0;
            row_offset <= 0;
            asked_beats <= 0;
        end else if (asked) begin
            asked_beats <= ends_row ? 0 : asked_beats + BURST;
            if (ends_row) begin
                row <= row + 1;
                row_offset <= row_offset + {16'd0, x_stride};
            end
        end
endmodule
