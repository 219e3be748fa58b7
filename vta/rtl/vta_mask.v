// Bit i: tile i of `count` is written.
module vta_mask #(
    parameter TILES = 1
) (
    input wire write,
    input wire [6:0] count,
    output wire [TILES-1:0] mask
);
    genvar i;
    generate
        for (i = 0; i < TILES; i = i + 1) begin : each
            assign mask[i] = write && count > i;
        end
    endgenerate
endmodule
