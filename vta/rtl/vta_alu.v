`include "vta_params.vh"
// One lane of the ALU.
module vta_alu (
    input wire [2:0] op,
    input wire signed [31:0] a,
    input wire signed [31:0] b,
    output reg [31:0] result
);
    wire less = a < b;
    // Both shifts are one to the right: of 63 bits, by n; to the left by n it is the same as by 31 - n from 31 bits further up.
    wire [62:0] from = b[31] ? {a, 31'd0} : {{31{a[31]}}, a};
    wire [4:0] amount = b[4:0] - {4'd0, b[31]};
    wire [46:0] by_16 = amount[4] ? from[62:16] : from[46:0];
    wire [38:0] by_8 = amount[3] ? by_16[46:8] : by_16[38:0];
    wire [34:0] by_4 = amount[2] ? by_8[38:4] : by_8[34:0];
    wire [32:0] by_2 = amount[1] ? by_4[34:2] : by_4[32:0];
    wire [31:0] shifted = amount[0] ? by_2[32:1] : by_2[31:0];
    wire [31:0] product;
    generate
        if (`VTA_MUL) begin : mul
            assign product = a * b;
        end else begin : none
            assign product = a;
        end
    endgenerate

    always @*
        case (op)
            `ALU_MIN: result = less ? a : b;
            `ALU_MAX: result = less ? b : a;
            `ALU_ADD: result = a + b;
            `ALU_SHR: result = shifted;
            default: result = product;
        endcase
endmodule
