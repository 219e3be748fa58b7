// An engine's instruction where engines have no queues: fetch writes it, part by part, while the engine has none.
module vta_slot #(
    parameter WIDTH = 128,
    parameter PARTS = 1
) (
    input wire clock,
    input wire reset,
    input wire [PARTS-1:0] write,  // bit i: part i; not while full, and the last one last
    input wire [WIDTH-1:0] write_data,
    output wire full,
    output reg valid,
    output reg [WIDTH-1:0] data,
    input wire take  // only while valid
);
    localparam BITS = WIDTH / PARTS;
    integer p;

    assign full = valid;

    always @(posedge clock) begin
        for (p = 0; p < PARTS; p = p + 1) if (write[p]) data[p*BITS+:BITS] <= write_data[p*BITS+:BITS];
        valid <= !reset && (write[PARTS-1] || (valid && !take));
    end
endmodule
