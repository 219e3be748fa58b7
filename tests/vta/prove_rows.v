`include "vta_params.vh"
// The bursts of any LOAD or STORE: each row from its first beat to its last, in order and in the
// fewest bursts, none outside of it, and then no more.
module prove_rows (
    input wire clock,
    input wire reset,
    input wire working,
    input wire take
);
    reg started = 0;
    always @(posedge clock) started <= 1;
    always @* assume (reset == !started);

    (* anyconst *) wire [31:0] dram_base;
    (* anyconst *) wire [15:0] y_size;
    (* anyconst *) wire [15:0] x_size;
    (* anyconst *) wire [15:0] x_stride;
    (* anyconst *) wire is_small;
    wire [4:0] tile_log = is_small ? 5'd2 : 5'd4;  // half a beat, or two
    wire wanted;
    wire [31:0] address;
    wire [7:0] beats;
    wire asked = wanted && take;

    // Numbers small enough for a solver; rows of several bursts are among them.
    always @* assume (dram_base[31:16] == 0 && x_size[15:11] == 0 && x_stride[15:11] == 0 && y_size[15:2] == 0);

    vta_rows rows (
        .clock(clock),
        .working(working),
        .clear(reset),
        .dram_base(dram_base),
        .y_size(y_size),
        .x_size(x_size),
        .x_stride(x_stride),
        .tile_log(tile_log),
        .wanted(wanted),
        .address(address),
        .beats(beats),
        .asked(asked)
    );

    // What was asked for: whole rows, and the byte behind the last burst.
    reg [15:0] row = 0;
    reg in_row = 0;
    reg [23:0] first_tile = 0, next = 0;
    wire [23:0] first_byte = first_tile << tile_log, end_byte = (first_tile + x_size) << tile_log;
    wire [23:0] burst_end = address + ((24'd1 + beats) << `VTA_BUS_LOG);
    wire ends_row = burst_end >= end_byte;
    always @(posedge clock)
        if (reset) begin
            row <= 0;
            in_row <= 0;
            first_tile <= dram_base;
        end else if (asked) begin
            next <= burst_end;
            in_row <= !ends_row;
            if (ends_row) begin
                row <= row + 1;
                first_tile <= first_tile + x_stride;
            end
        end
    always @(posedge clock)
        if (started && !reset) begin
            assert (wanted == (working && x_size != 0 && row != y_size));
            if (asked) begin
                assert (row < y_size);
                assert (in_row ? address == next : address == (first_byte >> `VTA_BUS_LOG << `VTA_BUS_LOG));
                assert (address < end_byte);
                assert (burst_end < end_byte + (24'd1 << `VTA_BUS_LOG));
                assert (ends_row || beats == 255);
            end
        end
endmodule
