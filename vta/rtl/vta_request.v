`include "vta_params.vh"
// The bursts that an engine asks for: one in a cycle, and only while fewer than VTA_REQUESTS are on their way. The channel sees
// a burst from the cycle after on, until it accepts it.
module vta_request (
    input wire clock,
    input wire reset,
    input wire wanted,
    input wire [31:0] wanted_address,
    input wire [7:0] wanted_beats,  // and one more
    output wire asked,
    output reg request,
    output reg [31:0] address,
    output reg [7:0] beats,
    input wire accepted,
    input wire took_last  // the last beat of a burst was taken
);
    localparam LOG = $clog2(`VTA_REQUESTS + 1);
    localparam [LOG-1:0] MOST = `VTA_REQUESTS;

    reg [LOG-1:0] bursts;

    assign asked = wanted && bursts != MOST && (accepted || !request);

    always @(posedge clock) begin
        if (asked) begin
            address <= wanted_address;
            beats <= wanted_beats;
        end
        if (reset) begin
            request <= 0;
            bursts <= 0;
        end else begin
            request <= asked || (request && !accepted);
            if (asked && !took_last) bursts <= bursts + 1;
            if (took_last && !asked) bursts <= bursts - 1;
        end
    end
endmodule
