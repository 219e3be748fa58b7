`include "vta_params.vh"
// The accelerator: engines, the queues and tokens between them, channels of main memory, and registers. Its cycles are those
// that vta/csim.h describes.
//
// Registers, words of 32 bits:
//   0  write 1: start the program, while none runs.  Read: bit 0 it runs, bit 1 it finished
//   1  the program's first byte in main memory, a multiple of 256
//   2  its instructions
//   3, 4  cycles from the start to FINISH: low, high
//
// Main memory, for each channel (its bits of each port; a number n of beats is given as n - 1): a request is taken in the
// cycle in which `request_ready` is set. Beats that are read come in the order of requests with the number of their engine, the
// last one of a request marked, and are never refused. Beats that are written follow their request, and are taken where
// `write_ready` is set; the store engine's channel alone has them.
module vta (
    input wire clock,
    input wire reset,
    input wire register_write,
    input wire [2:0] register_number,
    input wire [31:0] register_write_data,
    output reg [31:0] register_read_data,  // comb
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

    // ---- registers ----
    reg running, finished;
    reg [31:0] program_address, instruction_count;
    reg [63:0] cycles;
    wire start = register_write && register_number == 0 && register_write_data[0] && !running;
    wire ends;  // FINISH
    wire idle = reset || !running;  // engines and queues are empty before a program starts

    always @(posedge clock)
        if (reset) begin
            running <= 0;
            finished <= 0;
            cycles <= 0;
            program_address <= 0;
            instruction_count <= 0;
        end else begin
            if (register_write && register_number == 1) program_address <= register_write_data;
            if (register_write && register_number == 2) instruction_count <= register_write_data;
            if (start) begin
                running <= 1;
                finished <= 0;
                cycles <= 0;
            end
            if (running) cycles <= cycles + 1;
            if (ends) begin
                running <= 0;
                finished <= 1;
            end
        end

    always @*
        case (register_number)
            3'd0: register_read_data = {30'd0, finished, running};
            3'd1: register_read_data = program_address;
            3'd2: register_read_data = instruction_count;
            3'd3: register_read_data = cycles[31:0];
            default: register_read_data = cycles[63:32];
        endcase

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
    wire [2:0] push, full, valid, took;
    wire [127:0] fetched;
    wire [3*128-1:0] current;
    vta_fetch fetch (
        .clock(clock),
        .reset(idle),
        .running(running),
        .program_address(program_address),
        .instruction_count(instruction_count),
        .request(asks[FETCH]),
        .address(addresses[FETCH*32+:32]),
        .beats(lengths[FETCH*8+:8]),
        .accepted(taken[FETCH]),
        .read(reads[FETCH]),
        .read_data(read_data[(FETCH%`VTA_CHANNELS)*`VTA_BUS_BITS+:`VTA_BUS_BITS]),
        .push(push),
        .instruction(fetched),
        .full(full)
    );
    generate
        for (e = 0; e < 3; e = e + 1) begin : commands
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
    endgenerate

    // ---- tokens ----
    wire load_gives, load_takes, before_gives, before_takes, behind_gives, behind_takes, store_gives, store_takes;
    wire load_place, load_available, before_place, before_available;
    wire behind_place, behind_available, store_place, store_available;
    vta_tokens #(.DEPTH(`VTA_TOKENS)) load_to_compute (
        .clock(clock), .reset(idle), .push(load_gives), .place(load_place), .pop(before_takes), .available(before_available)
    );
    vta_tokens #(.DEPTH(`VTA_TOKENS)) compute_to_load (
        .clock(clock), .reset(idle), .push(before_gives), .place(before_place), .pop(load_takes), .available(load_available)
    );
    vta_tokens #(.DEPTH(`VTA_TOKENS)) compute_to_store (
        .clock(clock), .reset(idle), .push(behind_gives), .place(behind_place), .pop(store_takes), .available(store_available)
    );
    vta_tokens #(.DEPTH(`VTA_TOKENS)) store_to_compute (
        .clock(clock), .reset(idle), .push(store_gives), .place(store_place), .pop(behind_takes), .available(behind_available)
    );

    // ---- engines ----
    wire [`VTA_INP_LOG-1:0] inp_tile;
    wire [`VTA_INP_TILE_BITS-1:0] inp_data;
    wire [`VTA_WGT_LOG-1:0] wgt_tile;
    wire [`VTA_WGT_TILE_BITS-1:0] wgt_data;
    wire [`VTA_ACC_LOG-1:0] out_tile;
    wire [`VTA_OUT_LANES*`VTA_OUT_TILE_BITS-1:0] out_data, out_nearest;
    wire is_finish;
    assign ends = is_finish && took[COMPUTE];

    vta_load load (
        .clock(clock),
        .reset(idle),
        .valid(valid[LOAD]),
        .instruction(current[LOAD*128+:128]),
        .ended(took[LOAD]),
        .next_available(load_available),
        .next_place(load_place),
        .next_pop(load_takes),
        .next_push(load_gives),
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
        .ended(took[COMPUTE]),
        .finished(is_finish),
        .prev_available(before_available),
        .next_available(behind_available),
        .prev_place(before_place),
        .next_place(behind_place),
        .prev_pop(before_takes),
        .next_pop(behind_takes),
        .prev_push(before_gives),
        .next_push(behind_gives),
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
        .prev_available(store_available),
        .prev_place(store_place),
        .prev_pop(store_takes),
        .prev_push(store_gives),
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
