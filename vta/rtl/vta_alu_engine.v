`include "vta_params.vh"
// The ALU as an engine of its own. Tokens: with compute, before it, and store, behind it.
module vta_alu_engine (
    input wire clock,
    input wire reset,
    input wire valid,
    input wire [127:0] instruction,
    output wire took,
    input wire prev_available,
    input wire next_available,
    input wire prev_place,
    input wire next_place,
    output wire prev_pop,
    output wire next_pop,
    output wire prev_push,
    output wire next_push,
    // As in vta_alu_unit.
    output wire uop_read,
    output wire [`VTA_UOP_LOG-1:0] uop_number,
    input wire [31:0] uop,
    input wire refused,
    output wire [2:0] operations,
    output wire [`VTA_ACC_LOG-1:0] dst_tile,
    output wire [`VTA_ACC_LOG-1:0] src_tile,
    input wire [`VTA_ACC_TILE_BITS-1:0] dst_data,
    input wire [`VTA_ACC_TILE_BITS-1:0] src_data,
    output wire write,
    output wire [`VTA_ACC_LOG-1:0] write_tile,
    output wire [`VTA_PASS_LOG-1:0] write_pass,
    output wire [`VTA_PART_BITS-1:0] write_data
);
    wire working, last, ended, chains;
    assign took = ended || chains;

    vta_control control (
        .clock(clock),
        .reset(reset),
        .valid(valid),
        .pop_prev(instruction[`F_POP_PREV]),
        .pop_next(instruction[`F_POP_NEXT]),
        .push_prev(instruction[`F_PUSH_PREV]),
        .push_next(instruction[`F_PUSH_NEXT]),
        .prev_available(prev_available),
        .next_available(next_available),
        .prev_place(prev_place),
        .next_place(next_place),
        .prev_pop(prev_pop),
        .next_pop(next_pop),
        .prev_push(prev_push),
        .next_push(next_push),
        .working(working),
        .last(last),
        .ended(ended)
    );

    vta_alu_unit unit (
        .clock(clock),
        .clear(reset || ended),
        .working(working && valid),
        .instruction(instruction),
        .chains(chains),
        .last(last),
        .uop_read(uop_read),
        .uop_number(uop_number),
        .uop(uop),
        .refused(refused),
        .operations(operations),
        .dst_tile(dst_tile),
        .src_tile(src_tile),
        .dst_data(dst_data),
        .src_data(src_data),
        .write(write),
        .write_tile(write_tile),
        .write_pass(write_pass),
        .write_data(write_data)
    );
endmodule
