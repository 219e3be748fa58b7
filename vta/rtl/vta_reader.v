`include "vta_params.vh"
// What an engine reads from main memory: asks for bursts while there is room for their beats, and keeps beats in order until
// the engine takes them. So memory never has to wait with a beat.
module vta_reader #(
    parameter BEATS = `VTA_READ_BEATS
) (
    input wire clock,
    input wire reset,
    // The next burst.
    input wire wanted,
    input wire [31:0] wanted_address,
    input wire [7:0] wanted_beats,  // and one more
    output wire asked,
    // The channel.
    output wire request,
    output wire [31:0] address,
    output wire [7:0] beats,
    input wire accepted,
    input wire read,
    input wire read_last,  // of its burst
    input wire [`VTA_BUS_BITS-1:0] read_data,
    // The engine.
    output wire beat_valid,
    output wire [`VTA_BUS_BITS-1:0] beat,
    input wire take
);
    localparam LOG = $clog2(BEATS + 1) > 9 ? $clog2(BEATS + 1) : 9;
    localparam [LOG-1:0] ALL = BEATS[LOG-1:0];

    reg [LOG-1:0] room;
    wire [LOG-1:0] burst_beats = {{(LOG - 8) {1'b0}}, wanted_beats} + 1;
    wire beat_last;
    wire unused_full;

    vta_request requests (
        .clock(clock),
        .reset(reset),
        .wanted(wanted && burst_beats <= room),
        .wanted_address(wanted_address),
        .wanted_beats(wanted_beats),
        .asked(asked),
        .request(request),
        .address(address),
        .beats(beats),
        .accepted(accepted),
        .took_last(take && beat_last)
    );

    vta_queue #(
        .WIDTH(`VTA_BUS_BITS + 1),
        .DEPTH(BEATS)
    ) queue (
        .clock(clock),
        .reset(reset),
        .push(read),
        .push_data({read_last, read_data}),
        .full(unused_full),
        .valid(beat_valid),
        .data({beat_last, beat}),
        .take(take)
    );

    always @(posedge clock)
        if (reset) room <= ALL;
        else room <= room - (asked ? burst_beats : 0) + {{(LOG - 1) {1'b0}}, take};
endmodule
