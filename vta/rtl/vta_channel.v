// One channel of main memory, shared by the engines whose bits of ENGINES are set: load 0, compute 1, store 2, fetch 3. Takes
// their requests in turn, from the one behind the last served on.
module vta_channel #(
    parameter [3:0] ENGINES = 4'b1111
) (
    input wire clock,
    input wire reset,
    input wire [3:0] request,
    input wire [4*32-1:0] address,
    input wire [4*8-1:0] beats,
    output wire [3:0] accepted,
    output wire port_request,
    output wire [1:0] port_engine,
    output wire [31:0] port_address,
    output wire [7:0] port_beats,
    input wire port_ready
);
    reg [1:0] served;
    wire [3:0] asking = request & ENGINES;
    wire [1:0] second = served + 2'd2, first = served + 2'd1, third = served + 2'd3;
    wire [1:0] chosen = asking[first] ? first : asking[second] ? second : asking[third] ? third : served;

    assign port_request = asking != 0;
    assign port_engine = chosen;
    assign port_address = address[chosen*32+:32];
    assign port_beats = beats[chosen*8+:8];
    assign accepted = port_request && port_ready ? 4'd1 << chosen : 4'd0;

    always @(posedge clock)
        if (reset) served <= 2'd3;
        else if (port_request && port_ready) served <= chosen;
endmodule
