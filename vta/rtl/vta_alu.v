`include "vta_params.vh"
// One lane of the ALU.
module vta_alu (
    input wire [2:0] op,
    input wire signed [31:0] a,
    input wire signed [31:0] b,
    output reg [31:0] result
);
    wire less = a < b;
    wire [4:0] left = -b[4:0];
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
            `ALU_SHR: result = b[31] ? a << left : a >>> b[4:0];
            default: result = product;
        endcase
endmodule
