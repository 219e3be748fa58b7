// The life of one instruction in an engine: takes its tokens in the first cycle in which all are there, works from the next cycle
// on until `last`, and gives its tokens then, or later once there are places. The next instruction is there in the cycle
// behind `ended`.
module vta_control (
    input wire clock,
    input wire reset,
    input wire valid,  // an instruction is there, with these bits
    input wire pop_prev,
    input wire pop_next,
    input wire push_prev,
    input wire push_next,
    // Tokens of the neighbours: before and behind.
    input wire prev_available,
    input wire next_available,
    input wire prev_place,
    input wire next_place,
    output wire prev_pop,
    output wire next_pop,
    output wire prev_push,
    output wire next_push,
    output wire working,
    input wire last,  // this cycle of work is the instruction's last
    output wire ended
);
    localparam WAIT = 2'd0, WORK = 2'd1, GIVE = 2'd2;
    reg [1:0] state;

    wire start = state == WAIT && valid && (!pop_prev || prev_available) && (!pop_next || next_available);
    wire worked = (working && last) || state == GIVE;

    assign working = state == WORK;
    assign ended = worked && (!push_prev || prev_place) && (!push_next || next_place);
    assign prev_pop = start && pop_prev;
    assign next_pop = start && pop_next;
    assign prev_push = ended && push_prev;
    assign next_push = ended && push_next;

    always @(posedge clock)
        if (reset || ended) state <= WAIT;
        else if (worked) state <= GIVE;
        else if (start) state <= WORK;
endmodule
