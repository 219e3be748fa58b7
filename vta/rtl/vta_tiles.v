`include "vta_params.vh"
// Tiles of TILE_BITS from beats of main memory: keeps the first beats of a tile until its last one comes, or takes a beat's
// tiles from `lane` on.
module vta_tiles #(
    parameter TILE_BITS = 128,
    parameter TILES = TILE_BITS < `VTA_BUS_BITS ? `VTA_BUS_BITS / TILE_BITS : 1
) (
    input wire clock,
    input wire take,  // a beat is taken
    input wire [`VTA_BUS_BITS-1:0] beat,
    input wire zero,
    /* verilator lint_off UNUSED */
    input wire [6:0] lane,
    /* verilator lint_on UNUSED */
    output wire [TILES*TILE_BITS-1:0] tiles
);
    generate
        if (TILE_BITS > `VTA_BUS_BITS) begin : assembled
            reg [TILE_BITS-`VTA_BUS_BITS-1:0] first_parts;
            wire [TILE_BITS-1:0] together = {beat, first_parts};
            always @(posedge clock) if (take) first_parts <= together[TILE_BITS-1:`VTA_BUS_BITS];
            assign tiles = zero ? {TILE_BITS{1'b0}} : together;
        end else begin : part_of
            /* verilator lint_off UNUSED */
            wire unused = clock | take;
            /* verilator lint_on UNUSED */
            assign tiles = zero ? {TILES * TILE_BITS{1'b0}} : beat >> (lane * TILE_BITS);
        end
    endgenerate
endmodule
