`include "vta_params.vh"
// The accelerator: engines, the queues and tokens between them, channels of main memory, and registers. Its cycles are those
// that vta/csim.h describes.
//
// Registers, words of 32 bits:
//   0  write 1: start the program, while none runs.  Read: bit 0 it runs, bit 1 it finished
//   1  the program's first byte in main memory, a multiple of 256
//   2  its instructions
//   3, 4  cycles from the start to FINISH: low, high
//   5 to 8  instructions that have ended since the start: load, compute, ALU, store; each of a chain counts
//
// Main memory, for each channel (its bits of each port; a number n of beats is given as n - 1): a request is taken in the
// cycle in which `request_ready` is set. Beats that are read come in the order of requests with the number of their engine, the
// last one of a request marked, and are never refused. Beats that are written follow their request, and are taken where
// `write_ready` is set; the store engine's channel alone has them.
module vta (
    input wire clock,
    input wire reset,
    input wire register_write,
    input wire [3:0] register_number,
    /* verilator lint_off UNUSED */
    input wire [31:0] register_write_data,  // addresses may be narrower
    /* verilator lint_on UNUSED */
    output reg [31:0] register_read_data,  // in the cycle of register_number
    output wire [`VTA_CHANNELS-1:0] request,
    output wire [`VTA_CHANNELS-1:0] request_write,
    output wire [`VTA_CHANNELS*2-1:0] request_engine,
    output wire [`VTA_CHANNELS*32-1:0] request_address,
    output wire [`VTA_CHANNELS*8-1:0] request_beats,
    input wire [`VTA_CHANNELS-1:0] request_ready,
    input wire [`VTA_CHANNELS-1:0] read,
    input wire [`VTA_CHANNELS*2-1:0] read_engine,
    input wire [`VTA_CHANNELS-1:0] read_last,
    /* verilator lint_off UNUSED */
    input wire [`VTA_CHANNELS*`VTA_BUS_BITS-1:0] read_data,  // that of the store engine's channel may have no reader
    /* verilator lint_on UNUSED */
    output wire write_valid,
    output wire [`VTA_BUS_BITS-1:0] write_data,
    output wire [`VTA_BUS_BITS/8-1:0] write_strobe,
    output wire write_last,
    input wire write_ready
);
    localparam LOAD = 0, COMPUTE = 1, STORE = 2, FETCH = 3;
    localparam ALU = 3, ENGINES = `VTA_ENGINE ? 4 : 3;  // of queues of instructions

    // ---- registers ----
    reg running, finished;
    localparam AB = `VTA_ADDRESS_BITS, CB = `VTA_COUNT_BITS;
    reg [AB-1:0] program_address;
    reg [CB-1:0] instruction_count;
    reg [63:0] cycles;
    reg [ENGINES*CB-1:0] ended;
    wire start = register_write && register_number == 0 && register_write_data[0] && !running;
    wire ends;  // FINISH
    wire idle = reset || !running;  // engines and queues are empty before a program starts
    wire [ENGINES-1:0] push, full, valid, took;  // of each queue of instructions
    integer n;

    always @(posedge clock)
        if (reset) begin
            running <= 0;
            finished <= 0;
            cycles <= 0;
            ended <= 0;
            program_address <= 0;
            instruction_count <= 0;
        end else begin
            if (register_write && register_number == 1) program_address <= register_write_data[AB-1:0];
            if (register_write && register_number == 2) instruction_count <= register_write_data[CB-1:0];
            if (start) begin
                running <= 1;
                finished <= 0;
                cycles <= 0;
                ended <= 0;
            end
            if (running) cycles <= cycles + 1;
            for (n = 0; n < ENGINES; n = n + 1) if (running && took[n]) ended[n*CB+:CB] <= ended[n*CB+:CB] + 1;
            if (ends) begin
                running <= 0;
                finished <= 1;
            end
        end

    /* verilator lint_off WIDTH */
    always @*
        case (register_number)
            4'd0: register_read_data = {30'd0, finished, running};
            4'd1: register_read_data = program_address;
            4'd2: register_read_data = instruction_count;
            4'd3: register_read_data = cycles[31:0];
            4'd4: register_read_data = cycles[63:32];
            4'd5: register_read_data = ended[LOAD*CB+:CB];
            4'd6: register_read_data = ended[COMPUTE*CB+:CB];
            4'd7: register_read_data = `VTA_ENGINE ? ended[(ENGINES-1)*CB+:CB] : 0;
            4'd8: register_read_data = ended[STORE*CB+:CB];
            default: register_read_data = 0;
        endcase
    /* verilator lint_on WIDTH */

    // ---- main memory ----
    wire [3:0] asks, taken;
    wire [4*32-1:0] addresses;
    wire [4*8-1:0] lengths;
    wire [4*`VTA_CHANNELS-1:0] channel_taken;
    wire [3:0] reads, lasts;
    genvar c, e;
    generate
        for (c = 0; c < `VTA_CHANNELS; c = c + 1) begin : channel
            localparam [3:0] MEMBERS = {3 % `VTA_CHANNELS == c, 2 % `VTA_CHANNELS == c, 1 % `VTA_CHANNELS == c, 0 == c};
            vta_channel #(
                .ENGINES(MEMBERS)
            ) arbiter (
                .clock(clock),
                .reset(idle),
                .request(asks),
                .address(addresses),
                .beats(lengths),
                .accepted(channel_taken[c*4+:4]),
                .port_request(request[c]),
                .port_engine(request_engine[c*2+:2]),
                .port_address(request_address[c*32+:32]),
                .port_beats(request_beats[c*8+:8]),
                .port_ready(request_ready[c])
            );
            assign request_write[c] = request_engine[c*2+:2] == STORE;
        end
        for (e = 0; e < 4; e = e + 1) begin : engine
            localparam CHANNEL = e % `VTA_CHANNELS;
            localparam [1:0] SELF = e;
            assign taken[e] = channel_taken[CHANNEL*4+e];
            assign reads[e] = read[CHANNEL] && read_engine[CHANNEL*2+:2] == SELF;
            assign lasts[e] = read_last[CHANNEL];
        end
    endgenerate

    // ---- fetch and the queues of instructions ----
    wire [127:0] fetched;
    /* verilator lint_off UNUSED */
    wire [`VTA_HANDED_PARTS-1:0] part;  // queues take whole instructions
    /* verilator lint_on UNUSED */
    wire [ENGINES*128-1:0] current;
    vta_fetch #(
        .ENGINES(ENGINES)
    ) fetch (
        .clock(clock),
        .reset(idle),
        .running(running),
        .program_address({{(32 - AB) {1'b0}}, program_address}),
        .instruction_count(instruction_count),
        .request(asks[FETCH]),
        .address(addresses[FETCH*32+:32]),
        .beats(lengths[FETCH*8+:8]),
        .accepted(taken[FETCH]),
        .read(reads[FETCH]),
        .read_data(read_data[(FETCH%`VTA_CHANNELS)*`VTA_BUS_BITS+:`VTA_BUS_BITS]),
        .push(push),
        .part(part),
        .instruction(fetched),
        .full(full)
    );
    generate
        for (e = 0; e < ENGINES; e = e + 1) begin : commands
            if (`VTA_COMMANDS == 0) begin : alone
                vta_slot #(
                    .PARTS(`VTA_HANDED_PARTS)
                ) slot (
                    .clock(clock),
                    .reset(idle),
                    .write(push[e] ? part : {`VTA_HANDED_PARTS{1'b0}}),
                    .write_data(fetched),
                    .full(full[e]),
                    .valid(valid[e]),
                    .data(current[e*128+:128]),
                    .take(took[e])
                );
            end else begin : waiting
                vta_queue #(
                    .WIDTH(128),
                    .DEPTH(`VTA_COMMANDS)
                ) queue (
                    .clock(clock),
                    .reset(idle),
                    .push(push[e]),
                    .push_data(fetched),
                    .full(full[e]),
                    .valid(valid[e]),
                    .data(current[e*128+:128]),
                    .take(took[e])
                );
            end
        end
    endgenerate

    // ---- tokens: engines in a row, load, compute, the ALU where it is one, and store ----
    localparam ROW = ENGINES;
    // Of queue i, between engines i and i + 1 of the row: those that go down, to the latter, and up.
    wire [ROW-2:0] down_gives, down_place, down_takes, down_available, up_gives, up_place, up_takes, up_available;
    generate
        for (e = 0; e + 1 < ROW; e = e + 1) begin : between
            vta_tokens #(.DEPTH(`VTA_TOKENS)) down (
                .clock(clock),
                .reset(idle),
                .push(down_gives[e]),
                .place(down_place[e]),
                .pop(down_takes[e]),
                .available(down_available[e])
            );
            vta_tokens #(.DEPTH(`VTA_TOKENS)) up (
                .clock(clock),
                .reset(idle),
                .push(up_gives[e]),
                .place(up_place[e]),
                .pop(up_takes[e]),
                .available(up_available[e])
            );
        end
    endgenerate

    // ---- engines ----
    wire [`VTA_INP_LOG-1:0] inp_tile;
    wire [`VTA_INP_TILE_BITS-1:0] inp_data;
    wire [`VTA_WGT_LOG-1:0] wgt_tile;
    wire [`VTA_WGT_TILE_BITS-1:0] wgt_data;
    wire [`VTA_ACC_LOG-1:0] out_tile;
    wire [`VTA_OUT_LANES*`VTA_OUT_TILE_BITS-1:0] out_data, out_nearest;
    wire is_finish;
    // Accumulators, and the ALU.
    wire [`VTA_ACC_LANES-1:0] write;
    wire [`VTA_ACC_LANES*`VTA_ACC_TILE_BITS-1:0] write_acc;
    /* verilator lint_off UNUSED */
    wire meets, alu_working, alu_clear;  // with or without the ALU as an engine
    wire [`VTA_ACC_LOG-1:0] meets_tile;
    /* verilator lint_on UNUSED */
    wire [`VTA_ACC_LOG-1:0] write_tile, sum_tile, dst_tile, src_tile, alu_write_tile;
    wire [`VTA_ACC_TILE_BITS-1:0] sum_data, dst_data, src_data;
    wire sum_read, load_refused, alu_uop_read, alu_write, alu_refused;
    wire alu_chains, alu_last;
    wire [`VTA_UOP_LOG-1:0] alu_uop_number;
    wire [31:0] alu_uop;
    wire [2:0] alu_operations;
    wire [`VTA_PASS_LOG-1:0] alu_write_pass;
    wire [`VTA_PART_BITS-1:0] alu_write_data;
    assign ends = is_finish && took[COMPUTE];

    vta_load load (
        .clock(clock),
        .reset(idle),
        .valid(valid[LOAD]),
        .instruction(current[LOAD*128+:128]),
        .ended(took[LOAD]),
        .next_available(up_available[0]),
        .next_place(down_place[0]),
        .next_pop(up_takes[0]),
        .next_push(down_gives[0]),
        .request(asks[LOAD]),
        .address(addresses[LOAD*32+:32]),
        .beats(lengths[LOAD*8+:8]),
        .accepted(taken[LOAD]),
        .read(reads[LOAD]),
        .read_last(lasts[LOAD]),
        .read_data(read_data[(LOAD%`VTA_CHANNELS)*`VTA_BUS_BITS+:`VTA_BUS_BITS]),
        .inp_tile(inp_tile),
        .inp_data(inp_data),
        .wgt_tile(wgt_tile),
        .wgt_data(wgt_data)
    );
    vta_compute compute (
        .clock(clock),
        .reset(idle),
        .valid(valid[COMPUTE]),
        .instruction(current[COMPUTE*128+:128]),
        .took(took[COMPUTE]),
        .finished(is_finish),
        .prev_available(down_available[0]),
        .next_available(up_available[1]),
        .prev_place(up_place[0]),
        .next_place(down_place[1]),
        .prev_pop(down_takes[0]),
        .next_pop(up_takes[1]),
        .prev_push(up_gives[0]),
        .next_push(down_gives[1]),
        .request(asks[COMPUTE]),
        .address(addresses[COMPUTE*32+:32]),
        .beats(lengths[COMPUTE*8+:8]),
        .accepted(taken[COMPUTE]),
        .read(reads[COMPUTE]),
        .read_last(lasts[COMPUTE]),
        .read_data(read_data[(COMPUTE%`VTA_CHANNELS)*`VTA_BUS_BITS+:`VTA_BUS_BITS]),
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
        .load_refused(load_refused),
        .alu_operations(alu_operations),
        .meets(meets),
        .meets_tile(meets_tile),
        .alu_working(alu_working),
        .alu_clear(alu_clear),
        .alu_chains(alu_chains),
        .alu_last(alu_last)
    );
    generate
        if (`VTA_ENGINE) begin : alu_engine
            // Quarters of the memories of accumulators have one writer and one reader at a time (vta_acc.v).
            localparam TOP = `VTA_ACC_LOG - 1;
            /* verilator lint_off UNUSED */
            wire [`VTA_ACC_LOG-1:0] load_end = write_tile + `VTA_ACC_LANES - 1;
            /* verilator lint_on UNUSED */
            assign load_refused = alu_write &&
                (alu_write_tile[TOP-:2] == write_tile[TOP-:2] || alu_write_tile[TOP-:2] == load_end[TOP-:2]);
            assign alu_refused = (sum_read && sum_tile[TOP-:2] == dst_tile[TOP-:2]) || (meets && meets_tile[TOP-:2] == dst_tile[TOP-:2]);
            assign {alu_chains, alu_last} = 0;
            vta_alu_engine alu (
                .clock(clock),
                .reset(idle),
                .valid(valid[ALU]),
                .instruction(current[ALU*128+:128]),
                .took(took[ALU]),
                .prev_available(down_available[1]),
                .next_available(up_available[2]),
                .prev_place(up_place[1]),
                .next_place(down_place[2]),
                .prev_pop(down_takes[1]),
                .next_pop(up_takes[2]),
                .prev_push(up_gives[1]),
                .next_push(down_gives[2]),
                .uop_read(alu_uop_read),
                .uop_number(alu_uop_number),
                .uop(alu_uop),
                .refused(alu_refused),
                .operations(alu_operations),
                .dst_tile(dst_tile),
                .src_tile(src_tile),
                .dst_data(dst_data),
                .src_data(src_data),
                .write(alu_write),
                .write_tile(alu_write_tile),
                .write_pass(alu_write_pass),
                .write_data(alu_write_data)
            );
        end else begin : alu_of_compute
            assign load_refused = 0;
            assign alu_refused = 0;
            vta_alu_unit alu (
                .clock(clock),
                .clear(alu_clear),
                .working(alu_working),
                .instruction(current[COMPUTE*128+:128]),
                .chains(alu_chains),
                .last(alu_last),
                .uop_read(alu_uop_read),
                .uop_number(alu_uop_number),
                .uop(alu_uop),
                .refused(alu_refused),
                .operations(alu_operations),
                .dst_tile(dst_tile),
                .src_tile(src_tile),
                .dst_data(dst_data),
                .src_data(src_data),
                .write(alu_write),
                .write_tile(alu_write_tile),
                .write_pass(alu_write_pass),
                .write_data(alu_write_data)
            );
        end
    endgenerate
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
        .out_data(out_data),
        .out_nearest(out_nearest)
    );
    vta_store store (
        .clock(clock),
        .reset(idle),
        .valid(valid[STORE]),
        .instruction(current[STORE*128+:128]),
        .ended(took[STORE]),
        .prev_available(down_available[ROW-2]),
        .prev_place(up_place[ROW-2]),
        .prev_pop(down_takes[ROW-2]),
        .prev_push(up_gives[ROW-2]),
        .request(asks[STORE]),
        .address(addresses[STORE*32+:32]),
        .beats(lengths[STORE*8+:8]),
        .accepted(taken[STORE]),
        .write_valid(write_valid),
        .write_data(write_data),
        .write_strobe(write_strobe),
        .write_last(write_last),
        .write_ready(write_ready),
        .out_tile(out_tile),
        .out_data(out_data),
        .out_nearest(out_nearest)
    );
endmodule
