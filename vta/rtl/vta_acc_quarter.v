`include "vta_params.vh"
// Accumulators, all or a quarter of them, and the outputs that they are cut to. A tile is VTA_PASSES parts of VTA_PART_BITS, each
// in memories of its own, so that the ALU writes one part of it. With VTA_ACC_TWICE they are kept twice, so that the ALU reads
// both of its operands at once.
module vta_acc_quarter #(
    parameter LOG = `VTA_ACC_LOG
) (
    input wire clock,
    input wire [`VTA_PASSES-1:0] write_part,
    input wire [`VTA_ACC_LANES-1:0] write,  // bit i: tile write_tile + i
    input wire [LOG-1:0] write_tile,
    input wire [`VTA_ACC_LANES*`VTA_ACC_TILE_BITS-1:0] write_data,
    input wire [LOG-1:0] dst_tile,
    output wire [`VTA_ACC_TILE_BITS-1:0] dst_data,
    // What dst_data has as well, where accumulators are not kept twice: src_tile is then not read.
    /* verilator lint_off UNUSED */
    input wire [LOG-1:0] src_tile,
    /* verilator lint_on UNUSED */
    output wire [`VTA_ACC_TILE_BITS-1:0] src_data,
    input wire [LOG-1:0] out_tile,
    output wire [`VTA_OUT_LANES*`VTA_OUT_TILE_BITS-1:0] out_data,  // cut
    output wire [`VTA_OUT_LANES*`VTA_OUT_TILE_BITS-1:0] out_nearest  // the nearest number that fits
);
    localparam PB = `VTA_PART_BITS, TB = `VTA_ACC_TILE_BITS, IB = `VTA_INP_BITS;
    localparam ELEMENTS = PB / 32;
    // An output as it is kept: its bits, and where it may be wanted as the nearest number, whether it is below or above all
    // numbers that fit.
    localparam KEPT = `VTA_CHAIN ? IB + 2 : IB;

    genvar p, t, k;
    generate
        for (p = 0; p < `VTA_PASSES; p = p + 1) begin : part
            wire [`VTA_ACC_LANES-1:0] part_write = write_part[p] ? write : 0;
            wire [`VTA_ACC_LANES*PB-1:0] data;
            wire [`VTA_ACC_LANES*ELEMENTS*KEPT-1:0] kept;
            wire [`VTA_OUT_LANES*ELEMENTS*KEPT-1:0] kept_read;
            for (t = 0; t < `VTA_ACC_LANES; t = t + 1) begin : tile
                assign data[t*PB+:PB] = write_data[t*TB+p*PB+:PB];
                for (k = 0; k < ELEMENTS; k = k + 1) begin : element
                    /* verilator lint_off UNUSED */
                    wire [31:0] value = data[t*PB+k*32+:32];
                    /* verilator lint_on UNUSED */
                    if (KEPT == IB) begin : plain
                        assign kept[(t*ELEMENTS+k)*KEPT+:KEPT] = value[IB-1:0];
                    end else begin : flagged
                        wire fits = value[31:IB-1] == {(33 - IB) {value[31]}};
                        assign kept[(t*ELEMENTS+k)*KEPT+:KEPT] = {!fits && !value[31], !fits && value[31], value[IB-1:0]};
                    end
                end
            end
            vta_sram #(
                .WIDTH(PB),
                .TILES(1 << LOG),
                .BANKS(`VTA_ACC_LANES),
                .WRITE_TILES(`VTA_ACC_LANES)
            ) dst (
                .clock(clock),
                .write(part_write),
                .write_tile(write_tile),
                .write_data(data),
                .read(1'b1),
                .read_tile(dst_tile),
                .read_data(dst_data[p*PB+:PB])
            );
            if (`VTA_ACC_TWICE) begin : twice
                vta_sram #(
                    .WIDTH(PB),
                    .TILES(1 << LOG),
                    .BANKS(`VTA_ACC_LANES),
                    .WRITE_TILES(`VTA_ACC_LANES)
                ) src (
                    .clock(clock),
                    .write(part_write),
                    .write_tile(write_tile),
                    .write_data(data),
                    .read(1'b1),
                    .read_tile(src_tile),
                    .read_data(src_data[p*PB+:PB])
                );
            end else begin : once
                assign src_data[p*PB+:PB] = dst_data[p*PB+:PB];
            end
            vta_sram #(
                .WIDTH(ELEMENTS * KEPT),
                .TILES(1 << LOG),
                .BANKS(`VTA_OUT_LANES),
                .WRITE_TILES(`VTA_ACC_LANES),
                .READ_TILES(`VTA_OUT_LANES)
            ) out (
                .clock(clock),
                .write(part_write),
                .write_tile(write_tile),
                .write_data(kept),
                .read(1'b1),
                .read_tile(out_tile),
                .read_data(kept_read)
            );
            for (t = 0; t < `VTA_OUT_LANES; t = t + 1) begin : out_of
                for (k = 0; k < ELEMENTS; k = k + 1) begin : element
                    wire [KEPT-1:0] number = kept_read[(t*ELEMENTS+k)*KEPT+:KEPT];
                    wire [IB-1:0] nearest;
                    if (KEPT == IB) begin : plain
                        assign nearest = number;
                    end else begin : flagged
                        assign nearest = number[KEPT-1] ? {1'b0, {(IB - 1) {1'b1}}} :
                            number[KEPT-2] ? {1'b1, {(IB - 1) {1'b0}}} : number[IB-1:0];
                    end
                    assign out_data[t*`VTA_OUT_TILE_BITS+(p*ELEMENTS+k)*IB+:IB] = number[IB-1:0];
                    assign out_nearest[t*`VTA_OUT_TILE_BITS+(p*ELEMENTS+k)*IB+:IB] = nearest;
                end
            end
        end
    endgenerate
endmodule
