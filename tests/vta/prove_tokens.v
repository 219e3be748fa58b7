`include "vta_params.vh"
// Two engines that run any instructions at any speed and give each other tokens: never more than there are places, never one
// that was not given, and none lost.
module prove_tokens (
    input wire clock,
    input wire reset,
    input wire [1:0] valid,
    input wire [1:0] pops,
    input wire [1:0] pushes,
    input wire [1:0] last
);
    localparam DEPTH = 3;
    reg started = 0;
    always @(posedge clock) started <= 1;
    always @* assume (reset == !started);

    // Engine 0 is before engine 1; queue e holds the tokens that engine e gave.
    wire [1:0] available, place, pop, push, working, ended, unused_0, unused_1;
    genvar e;
    generate
        for (e = 0; e < 2; e = e + 1) begin : each
            vta_tokens #(.DEPTH(DEPTH)) tokens (
                .clock(clock), .reset(reset), .push(push[e]), .place(place[e]), .pop(pop[1-e]), .available(available[e])
            );
            vta_control control (
                .clock(clock),
                .reset(reset),
                .valid(valid[e]),
                .pop_prev(1'b0),
                .pop_next(pops[e]),
                .push_prev(1'b0),
                .push_next(pushes[e]),
                .prev_available(1'b0),
                .next_available(available[1-e]),
                .prev_place(1'b0),
                .next_place(place[e]),
                .prev_pop(unused_0[e]),
                .next_pop(pop[e]),
                .prev_push(unused_1[e]),
                .next_push(push[e]),
                .working(working[e]),
                .last(last[e]),
                .ended(ended[e])
            );
            // An instruction stays until it ended.
            reg was_valid = 0, was_pop, was_push;
            always @(posedge clock) begin
                was_valid <= valid[e] && !ended[e] && !reset;
                was_pop <= pops[e];
                was_push <= pushes[e];
            end
            always @* if (was_valid) assume (valid[e] && pops[e] == was_pop && pushes[e] == was_push);

            reg [3:0] given = 0, taken = 0, takes = 0, ends = 0;
            always @(posedge clock)
                if (reset) begin
                    given <= 0;
                    taken <= 0;
                    takes <= 0;
                    ends <= 0;
                end else begin
                    given <= given + push[e];
                    taken <= taken + pop[1-e];
                    takes <= takes + pop[e];
                    ends <= ends + ended[e];
                end
            always @(posedge clock)
                if (started && !reset) begin
                    assert (taken <= given);
                    assert (given - taken <= DEPTH);
                    assert (!push[e] || given - taken < DEPTH);
                    assert (!pop[1-e] || given != taken);
                    assert (available[e] == (given != taken));
                    assert (!ended[e] || valid[e]);
                    assert (given <= ends);  // at most one of each instruction
                    assert (takes <= ends + 1);
                    cover (given == DEPTH);
                end
        end
    endgenerate
endmodule
