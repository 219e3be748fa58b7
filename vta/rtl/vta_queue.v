// A first-in first-out queue of DEPTH entries with one more place in front, whose content is `data`. What is pushed into an
// empty queue is at `data` in the next cycle. Memory is read into a register, so that block RAM can hold it.
module vta_queue #(
    parameter WIDTH = 8,
    parameter DEPTH = 32,
    /* verilator lint_off UNUSED */
    parameter RAM = "auto"  // for synthesis; "distributed": in LUTs
    /* verilator lint_on UNUSED */
) (
    input wire clock,
    input wire reset,
    input wire push,  // not while full
    input wire [WIDTH-1:0] push_data,
    output wire full,
    output reg valid,
    output wire [WIDTH-1:0] data,
    input wire take  // only while valid
);
    localparam LOG = DEPTH > 1 ? $clog2(DEPTH) : 1;
    localparam [LOG:0] COUNT_MOST = DEPTH[LOG:0];
    localparam [LOG:0] LAST = COUNT_MOST - 1;

    (* ram_style = RAM *) reg [WIDTH-1:0] memory[0:DEPTH-1];
    reg [WIDTH-1:0] from_memory, bypassed;
    reg is_bypassed;
    reg [LOG:0] count;
    reg [LOG-1:0] head, tail;

    wire refill = take || !valid;
    wire advance = refill && count != 0;
    wire bypass = refill && count == 0 && push;
    wire store = push && !bypass;

    assign full = count == COUNT_MOST;
    assign data = is_bypassed ? bypassed : from_memory;

    always @(posedge clock) begin
        if (store) memory[tail] <= push_data;
        if (advance) from_memory <= memory[head];
        if (bypass) bypassed <= push_data;
        if (refill) is_bypassed <= bypass;
        if (reset) begin
            valid <= 0;
            count <= 0;
            head <= 0;
            tail <= 0;
        end else begin
            if (refill) valid <= advance || bypass;
            if (advance) head <= head == LAST[LOG-1:0] ? 0 : head + 1;
            if (store) tail <= tail == LAST[LOG-1:0] ? 0 : tail + 1;
            if (store && !advance) count <= count + 1;
            if (advance && !store) count <= count - 1;
        end
    end
endmodule
