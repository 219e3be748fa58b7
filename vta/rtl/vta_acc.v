`include "vta_params.vh"
// All accumulators and outputs, for the compute engine, the ALU and the store engine. Where the ALU is an engine, they lie in four
// quarters, each with ports of its own: compute and ALU meet only in one quarter. Then compute goes first when both
// read; the ALU does when both write, which whoever writes has to see to.
module vta_acc (
    input wire clock,
    // Compute: loads, and sums of GEMM.
    input wire [`VTA_ACC_LANES-1:0] write,  // bit i: tile write_tile + i
    input wire [`VTA_ACC_LOG-1:0] write_tile,
    input wire [`VTA_ACC_LANES*`VTA_ACC_TILE_BITS-1:0] write_data,
    input wire sum_read,
    input wire [`VTA_ACC_LOG-1:0] sum_tile,
    output wire [`VTA_ACC_TILE_BITS-1:0] sum_data,
    // ALU.
    input wire alu_write,
    input wire [`VTA_ACC_LOG-1:0] alu_write_tile,
    input wire [`VTA_PASS_LOG-1:0] alu_write_pass,
    input wire [`VTA_PART_BITS-1:0] alu_write_data,
    input wire [`VTA_ACC_LOG-1:0] dst_tile,
    input wire [`VTA_ACC_LOG-1:0] src_tile,
    output wire [`VTA_ACC_TILE_BITS-1:0] dst_data,
    output wire [`VTA_ACC_TILE_BITS-1:0] src_data,
    // Store.
    input wire [`VTA_ACC_LOG-1:0] out_tile,
    output wire [`VTA_OUT_LANES*`VTA_OUT_TILE_BITS-1:0] out_data,
    output wire [`VTA_OUT_LANES*`VTA_OUT_TILE_BITS-1:0] out_nearest
);
    localparam TB = `VTA_ACC_TILE_BITS, OB = `VTA_OUT_TILE_BITS, QUARTERS = `VTA_QUARTERS;
    localparam LOG = QUARTERS == 4 ? `VTA_ACC_LOG - 2 : `VTA_ACC_LOG;

    wire [`VTA_PASSES-1:0] alu_part = {{(`VTA_PASSES - 1) {1'b0}}, 1'b1} << alu_write_pass;
    wire [QUARTERS*TB-1:0] dst_all, src_all;
    wire [QUARTERS*`VTA_OUT_LANES*OB-1:0] out_all, nearest_all;
    genvar q, t;
    generate
        for (q = 0; q < QUARTERS; q = q + 1) begin : quarter
            wire [`VTA_ACC_LANES-1:0] mine;
            wire alu_mine, sum_mine;
            if (QUARTERS == 1) begin : all
                assign mine = write;
                assign alu_mine = alu_write;
                assign sum_mine = sum_read;
            end else begin : some
                localparam [1:0] SELF = q;
                for (t = 0; t < `VTA_ACC_LANES; t = t + 1) begin : lane
                    /* verilator lint_off UNUSED */
                    wire [`VTA_ACC_LOG-1:0] tile = write_tile + t;
                    /* verilator lint_on UNUSED */
                    assign mine[t] = write[t] && tile[`VTA_ACC_LOG-1-:2] == SELF;
                end
                assign alu_mine = alu_write && alu_write_tile[`VTA_ACC_LOG-1-:2] == SELF;
                assign sum_mine = sum_read && sum_tile[`VTA_ACC_LOG-1-:2] == SELF;
            end
            wire [`VTA_ACC_LANES*TB-1:0] alu_tiles;
            if (`VTA_ACC_LANES > 1) begin : lanes
                assign alu_tiles = {{(`VTA_ACC_LANES - 1) * TB{1'b0}}, {`VTA_PASSES{alu_write_data}}};
            end else begin : lane_alone
                assign alu_tiles = {`VTA_PASSES{alu_write_data}};
            end
            vta_acc_quarter #(
                .LOG(LOG)
            ) memories (
                .clock(clock),
                .write_part(alu_mine ? alu_part : ~0),
                .write(alu_mine ? {{(`VTA_ACC_LANES - 1) {1'b0}}, 1'b1} : mine),
                .write_tile(alu_mine ? alu_write_tile[LOG-1:0] : write_tile[LOG-1:0]),
                .write_data(alu_mine ? alu_tiles : write_data),
                .dst_tile(sum_mine ? sum_tile[LOG-1:0] : dst_tile[LOG-1:0]),
                .dst_data(dst_all[q*TB+:TB]),
                .src_tile(src_tile[LOG-1:0]),
                .src_data(src_all[q*TB+:TB]),
                .out_tile(out_tile[LOG-1:0]),
                .out_data(out_all[q*`VTA_OUT_LANES*OB+:`VTA_OUT_LANES*OB]),
                .out_nearest(nearest_all[q*`VTA_OUT_LANES*OB+:`VTA_OUT_LANES*OB])
            );
        end
        if (QUARTERS == 1) begin : from_all
            assign sum_data = dst_all;
            assign dst_data = dst_all;
            assign src_data = src_all;
            assign out_data = out_all;
            assign out_nearest = nearest_all;
        end else begin : from_some
            reg [1:0] sum_from, dst_from, src_from;
            always @(posedge clock) begin
                sum_from <= sum_tile[`VTA_ACC_LOG-1-:2];
                dst_from <= dst_tile[`VTA_ACC_LOG-1-:2];
                src_from <= src_tile[`VTA_ACC_LOG-1-:2];
            end
            assign sum_data = dst_all[sum_from*TB+:TB];
            assign dst_data = dst_all[dst_from*TB+:TB];
            assign src_data = src_all[src_from*TB+:TB];
            for (t = 0; t < `VTA_OUT_LANES; t = t + 1) begin : lane
                /* verilator lint_off UNUSED */
                wire [`VTA_ACC_LOG-1:0] tile = out_tile + t;
                /* verilator lint_on UNUSED */
                reg [1:0] from;
                always @(posedge clock) from <= tile[`VTA_ACC_LOG-1-:2];
                assign out_data[t*OB+:OB] = out_all[(from*`VTA_OUT_LANES+t)*OB+:OB];
                assign out_nearest[t*OB+:OB] = nearest_all[(from*`VTA_OUT_LANES+t)*OB+:OB];
            end
        end
    endgenerate
endmodule
