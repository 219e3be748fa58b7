`include "vta_params.vh"
// The bursts of main memory that hold the rows of a LOAD or STORE, row by row, each in as few bursts as there can be. No legal
// instruction has more rows or columns than the largest memory has tiles, or addresses above main memory; numbers are as narrow.
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
    localparam AB = `VTA_ADDRESS_BITS, SB = `VTA_SIZE_BITS, RB = `VTA_ROW_BEATS_BITS;
    localparam [31:0] BUS_BYTES = 1 << `VTA_BUS_LOG;

    reg [SB-1:0] row;
    reg [AB-1:0] row_offset;  // tiles from the first row to this one
    wire ends_row;

    /* verilator lint_off UNUSED */
    wire [16:0] row_count = {1'b0, y_size}, column_count = {1'b0, x_size};
    wire [31:0] tile = dram_base + {{(32 - AB) {1'b0}}, row_offset};
    wire [31:0] first_byte = tile << tile_log;
    wire [31:0] next_offset = {{(32 - AB) {1'b0}}, row_offset} + {16'd0, x_stride};
    // From the begin of its first beat on.
    wire [31:0] row_bytes = (first_byte & (BUS_BYTES - 1)) + ({16'd0, x_size} << tile_log);
    wire [31:0] row_beats = (row_bytes + BUS_BYTES - 1) >> `VTA_BUS_LOG;
    wire [31:0] first_beat = first_byte >> `VTA_BUS_LOG;
    wire [31:0] beat;
    wire [31:0] beat_address = beat << `VTA_BUS_LOG;
    wire [31:0] behind_first;
    /* verilator lint_on UNUSED */

    assign wanted = working && column_count[SB-1:0] != 0 && row != row_count[SB-1:0];
    assign address = {{(32 - AB) {1'b0}}, beat_address[AB-1:0]};
    assign beats = behind_first[7:0];

    generate
        if (RB > 8) begin : bursts
            localparam [RB-1:0] BURST = 256;
            reg [RB-1:0] asked_beats;  // of this row
            wire [RB-1:0] left = row_beats[RB-1:0] - asked_beats;
            assign ends_row = left <= BURST;
            assign beat = first_beat + {{(32 - RB) {1'b0}}, asked_beats};
            assign behind_first = {{(32 - RB) {1'b0}}, (ends_row ? left : BURST) - 1'b1};
            always @(posedge clock)
                if (clear || (asked && ends_row)) asked_beats <= 0;
                else if (asked) asked_beats <= asked_beats + BURST;
        end else begin : burst_alone
            assign ends_row = 1;
            assign beat = first_beat;
            assign behind_first = row_beats - 1;
        end
    endgenerate

    always @(posedge clock)
        if (clear) begin
            row <= 0;
            row_offset <= 0;
        end else if (asked && ends_row) begin
            row <= row + 1;
            row_offset <= next_offset[AB-1:0];
        end
endmodule
