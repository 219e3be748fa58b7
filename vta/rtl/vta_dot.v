`include "vta_params.vh"
// The sums of products of one row of inputs with one or two rows of weights. Products are registered, and so are the first
// `VTA_TREE levels of the tree of sums. Two products of one input share a multiplier (weight a << HIGH) + weight b, of which
// the lower product's sign is given back to the upper one: 25 x 18 bits of a DSP hold two of 8 x 8. With LUTS products are sums
// of shifted weights, which synthesis never puts into a DSP. A logic cell of an iCE40 has room for a choice behind its carry, not
// before it: with VTA_CHOOSE_SUMS each sum is made and then chosen or not.
module vta_dot #(
    parameter ROWS = 1,
    parameter LUTS = 0  // only with one row
) (
    input wire clock,
    input wire [`VTA_BLOCK_IN*`VTA_INP_BITS-1:0] inp,
    input wire [ROWS*`VTA_BLOCK_IN*`VTA_WGT_BITS-1:0] wgt,
    output wire [ROWS*`VTA_SUM_BITS-1:0] sums
);
    localparam IB = `VTA_INP_BITS, WB = `VTA_WGT_BITS, N = `VTA_BLOCK_IN;
    localparam HIGH = IB + WB;
    localparam LEVELS = $clog2(N);

    // Level l has N >> l sums of each row, the first of them at l * N.
    wire signed [`VTA_SUM_BITS-1:0] sum[0:ROWS*(LEVELS+1)*N-1]  /* verilator split_var */;
    genvar k, r, l;
    generate
        for (k = 0; k < N; k = k + 1) begin : product
            wire signed [IB-1:0] x = inp[k*IB+:IB];
            if (ROWS == 1) begin : alone
                wire signed [WB-1:0] w = wgt[k*WB+:WB];
                reg signed [HIGH-1:0] both;
                if (LUTS && `VTA_CHOOSE_SUMS) begin : by_choices
                    // Bits of w, the lowest first: the sum so far, halved, with x or without it; the highest bit counts negative.
                    wire signed [IB:0] wide = {x[IB-1], x};
                    wire signed [IB:0] part[0:WB-1]  /* verilator split_var */;
                    wire [HIGH-1:0] whole;
                    genvar i;
                    assign part[0] = w[0] ? wide : {(IB + 1) {1'b0}};
                    for (i = 1; i < WB; i = i + 1) begin : bit_of
                        wire signed [IB:0] half = part[i-1] >>> 1;
                        wire signed [IB:0] with_x = i == WB - 1 ? half - wide : half + wide;
                        assign part[i] = w[i] ? with_x : half;
                        assign whole[i-1] = part[i-1][0];
                    end
                    assign whole[HIGH-1:WB-1] = part[WB-1];
                    always @(posedge clock) both <= whole;
                end else if (LUTS) begin : by_sums
                    // Bits of x, and of w with them: the highest one of each counts negative.
                    wire signed [HIGH-1:0] wide = {{IB{w[WB-1]}}, w};
                    wire [HIGH-1:0] part[0:IB]  /* verilator split_var */;
                    genvar i;
                    assign part[0] = {HIGH{1'b0}};
                    for (i = 0; i < IB; i = i + 1) begin : bit_of
                        wire [HIGH-1:0] shifted = x[i] ? wide << i : {HIGH{1'b0}};
                        assign part[i+1] = i == IB - 1 ? part[i] - shifted : part[i] + shifted;
                    end
                    always @(posedge clock) both <= part[IB];
                end else begin : by_multiplier
                    always @(posedge clock) both <= x * w;
                end
                assign sum[k] = {{(`VTA_SUM_BITS - HIGH) {both[HIGH-1]}}, both};
            end else begin : shared
                wire signed [WB-1:0] low = wgt[k*WB+:WB], high = wgt[(N+k)*WB+:WB];
                wire signed [HIGH+WB:0] packed_weights =
                    $signed({high[WB-1], high, {HIGH{1'b0}}}) + $signed({{(HIGH + 1) {low[WB-1]}}, low});
                reg signed [2*HIGH:0] both;
                always @(posedge clock) both <= x * packed_weights;
                wire signed [HIGH-1:0] upper = both[2*HIGH-1:HIGH] + {{(HIGH - 1) {1'b0}}, both[HIGH-1]};
                assign sum[k] = {{(`VTA_SUM_BITS - HIGH) {both[HIGH-1]}}, both[HIGH-1:0]};
                assign sum[(LEVELS+1)*N+k] = {{(`VTA_SUM_BITS - HIGH) {upper[HIGH-1]}}, upper};
            end
        end
        for (r = 0; r < ROWS; r = r + 1) begin : row
            for (l = 0; l < LEVELS; l = l + 1) begin : level
                for (k = 0; k < N >> (l + 1); k = k + 1) begin : pair
                    wire signed [`VTA_SUM_BITS-1:0] both =
                        sum[r*(LEVELS+1)*N+l*N+2*k] + sum[r*(LEVELS+1)*N+l*N+2*k+1];
                    if (l < `VTA_TREE) begin : registered
                        reg signed [`VTA_SUM_BITS-1:0] kept;
                        always @(posedge clock) kept <= both;
                        assign sum[r*(LEVELS+1)*N+(l+1)*N+k] = kept;
                    end else begin : passed
                        assign sum[r*(LEVELS+1)*N+(l+1)*N+k] = both;
                    end
                end
            end
            assign sums[r*`VTA_SUM_BITS+:`VTA_SUM_BITS] = sum[r*(LEVELS+1)*N+LEVELS*N];
        end
    endgenerate
endmodule
