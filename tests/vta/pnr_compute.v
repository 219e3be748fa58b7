`include "vta_params.vh"
// What of a machine decides its clock, small enough for an iCE40: the compute engine with the ALU and all memories of tiles. An
// instruction comes bit by bit; beats of the compute engine's loads fill memories of inputs and weights, too.
module pnr_compute (
    input wire clock,
    input wire reset,
    input wire instruction_bit,
    input wire valid,
    output wire took,
    output wire finished,
    output wire request,
    output wire [31:0] address,
    output wire [7:0] beats,
    input wire accepted,
    input wire read,
    input wire read_last,
    input wire [`VTA_BUS_BITS-1:0] read_data,
    input wire write_inp,
    input wire write_wgt,
    input wire [`VTA_ACC_LOG-1:0] out_tile,
    output wire [`VTA_OUT_LANES*`VTA_OUT_TILE_BITS-1:0] out_data
);
    localparam WGT_WORDS = `VTA_WGT_TILE_BITS / `VTA_BUS_BITS + 1, INP_WORDS = `VTA_INP_TILE_BITS / `VTA_BUS_BITS + 1;

    reg [127:0] instruction;
    reg [`VTA_INP_LOG+`VTA_WGT_LOG-1:0] place;
    always @(posedge clock) begin
        instruction <= {instruction[126:0], instruction_bit};
        place <= reset ? 0 : place + (write_inp || write_wgt);
    end
    wire [WGT_WORDS*`VTA_BUS_BITS-1:0] wgt_words = {WGT_WORDS{read_data}};
    wire [INP_WORDS*`VTA_BUS_BITS-1:0] inp_words = {INP_WORDS{read_data}};

    wire [`VTA_INP_LOG-1:0] inp_tile;
    wire [`VTA_INP_TILE_BITS-1:0] inp_data;
    wire [`VTA_WGT_LOG-1:0] wgt_tile;
    wire [`VTA_WGT_TILE_BITS-1:0] wgt_data;
    vta_sram #(.WIDTH(`VTA_INP_TILE_BITS), .TILES(1 << `VTA_INP_LOG)) inp (
        .clock(clock),
        .write(write_inp),
        .write_tile(place[`VTA_INP_LOG-1:0]),
        .write_data(inp_words[`VTA_INP_TILE_BITS-1:0]),
        .read(1'b1),
        .read_tile(inp_tile),
        .read_data(inp_data)
    );
    vta_sram #(.WIDTH(`VTA_WGT_TILE_BITS), .TILES(1 << `VTA_WGT_LOG)) wgt (
        .clock(clock),
        .write(write_wgt),
        .write_tile(place[`VTA_WGT_LOG-1:0]),
        .write_data(wgt_words[`VTA_WGT_TILE_BITS-1:0]),
        .read(1'b1),
        .read_tile(wgt_tile),
        .read_data(wgt_data)
    );

    wire [`VTA_ACC_LANES-1:0] write;
    wire [`VTA_ACC_LANES*`VTA_ACC_TILE_BITS-1:0] write_acc;
    wire [`VTA_ACC_LOG-1:0] write_tile, sum_tile, dst_tile, src_tile, alu_write_tile;
    wire [`VTA_ACC_TILE_BITS-1:0] sum_data, dst_data, src_data;
    wire sum_read, alu_uop_read, alu_write, alu_working, alu_clear, alu_chains, alu_last;
    wire [`VTA_UOP_LOG-1:0] alu_uop_number;
    wire [31:0] alu_uop;
    wire [`VTA_PASS_LOG-1:0] alu_write_pass;
    wire [`VTA_PART_BITS-1:0] alu_write_data;
    vta_compute compute (
        .clock(clock),
        .reset(reset),
        .valid(valid),
        .instruction(instruction),
        .took(took),
        .finished(finished),
        .prev_available(1'b1),
        .next_available(1'b1),
        .prev_place(1'b1),
        .next_place(1'b1),
        .request(request),
        .address(address),
        .beats(beats),
        .accepted(accepted),
        .read(read),
        .read_last(read_last),
        .read_data(read_data),
        .inp_tile(inp_tile),
        .inp_data(inp_data),
        .wgt_tile(wgt_tile),
        .wgt_data(wgt_data),
        .alu_uop_read(alu_uop_read),
        .alu_uop_number(alu_uop_number),
        .alu_uop(alu_uop),
        .write(write),
        .write_tile(write_tile),
        .write_data(write_acc),
        .sum_read(sum_read),
        .sum_tile(sum_tile),
        .sum_data(sum_data),
        .load_refused(1'b0),
        .alu_operations(3'd0),
        .alu_working(alu_working),
        .alu_clear(alu_clear),
        .alu_chains(alu_chains),
        .alu_last(alu_last)
    );
    vta_alu_unit alu (
        .clock(clock),
        .clear(alu_clear),
        .working(alu_working),
        .instruction(instruction),
        .chains(alu_chains),
        .last(alu_last),
        .uop_read(alu_uop_read),
        .uop_number(alu_uop_number),
        .uop(alu_uop),
        .refused(1'b0),
        .dst_tile(dst_tile),
        .src_tile(src_tile),
        .dst_data(dst_data),
        .src_data(src_data),
        .write(alu_write),
        .write_tile(alu_write_tile),
        .write_pass(alu_write_pass),
        .write_data(alu_write_data)
    );
    vta_acc acc (
        .clock(clock),
        .write(write),
        .write_tile(write_tile),
        .write_data(write_acc),
        .sum_read(sum_read),
        .sum_tile(sum_tile),
        .sum_data(sum_data),
        .alu_write(alu_write),
        .alu_write_tile(alu_write_tile),
        .alu_write_pass(alu_write_pass),
        .alu_write_data(alu_write_data),
        .dst_tile(dst_tile),
        .src_tile(src_tile),
        .dst_data(dst_data),
        .src_data(src_data),
        .out_tile(out_tile),
        .out_data(out_data)
    );
endmodule
