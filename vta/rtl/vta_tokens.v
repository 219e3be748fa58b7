// Tokens from one engine to a neighbour: at most DEPTH of them. One that is pushed can be popped in the next cycle.
module vta_tokens #(
    parameter DEPTH = 32
) (
    input wire clock,
    input wire reset,
    input wire push,  // only where there is a place
    output wire place,
    input wire pop,  // only where one is available
    output wire available
);
    localparam LOG = $clog2(DEPTH + 1);
    localparam [LOG-1:0] MOST = DEPTH[LOG-1:0];

    reg [LOG-1:0] count;

    assign place = count != MOST;
    assign available = count != 0;

    always @(posedge clock)
        if (reset) count <= 0;
        else if (push && !pop) count <= count + 1;
        else if (pop && !push) count <= count - 1;
endmodule
