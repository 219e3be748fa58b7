`include "vta_params.vh"
// All sums of a GEMM step: output element b * block_out + o is the product of row b of the input tile and row o of the weights.
// They are there VTA_TREE + 1 cycles after the tiles. The last VTA_LUT_COLUMNS columns of weights, an even number, are multiplied
// in LUTs.
module vta_gemm (
    input wire clock,
    input wire [`VTA_INP_TILE_BITS-1:0] inp,
    input wire [`VTA_WGT_TILE_BITS-1:0] wgt,
    output wire [`VTA_ELEMENTS*`VTA_SUM_BITS-1:0] sums
);
    localparam ROW = `VTA_BLOCK_IN * `VTA_WGT_BITS;
    localparam ROWS = `VTA_SHARE_MULTIPLIERS && `VTA_BLOCK_OUT > 1 ? 2 : 1;

    localparam MULTIPLIED = `VTA_BLOCK_OUT - `VTA_LUT_COLUMNS;

    genvar b, o;
    generate
        for (b = 0; b < `VTA_BATCH; b = b + 1) begin : row
            for (o = MULTIPLIED; o < `VTA_BLOCK_OUT; o = o + 1) begin : column_of_luts
                vta_dot #(
                    .LUTS(1)
                ) dot (
                    .clock(clock),
                    .inp(inp[b*`VTA_BLOCK_IN*`VTA_INP_BITS+:`VTA_BLOCK_IN*`VTA_INP_BITS]),
                    .wgt(wgt[o*ROW+:ROW]),
                    .sums(sums[(b*`VTA_BLOCK_OUT+o)*`VTA_SUM_BITS+:`VTA_SUM_BITS])
                );
            end
            for (o = 0; o < MULTIPLIED; o = o + ROWS) begin : column
                vta_dot #(
                    .ROWS(ROWS)
                ) dot (
                    .clock(clock),
                    .inp(inp[b*`VTA_BLOCK_IN*`VTA_INP_BITS+:`VTA_BLOCK_IN*`VTA_INP_BITS]),
                    .wgt(wgt[o*ROW+:ROWS*ROW]),
                    .sums(sums[(b*`VTA_BLOCK_OUT+o)*`VTA_SUM_BITS+:ROWS*`VTA_SUM_BITS])
                );
            end
        end
    endgenerate
endmodule
