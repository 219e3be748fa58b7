// A memory of TILES tiles. Up to WRITE_TILES tiles that follow each other are written in a cycle, and READ_TILES are read: those
// from `read_tile` on are at `read_data` in the next cycle, as they were before what this cycle writes; nobody uses what is read of a
// tile while it is written, so hardware may read anything there. Tile t lies in bank
// t % BANKS, so that tiles that follow each other never share one; BANKS is a power of two and no less than either number.
module vta_sram #(
    parameter WIDTH = 32,
    parameter TILES = 64,
    parameter BANKS = 1,
    parameter WRITE_TILES = 1,
    parameter READ_TILES = 1,
    parameter LOG = $clog2(TILES)
) (
    input wire clock,
    input wire [WRITE_TILES-1:0] write,  // bit i: tile write_tile + i
    input wire [LOG-1:0] write_tile,
    input wire [WRITE_TILES*WIDTH-1:0] write_data,
    input wire read,  // else read_data stays as it is
    input wire [LOG-1:0] read_tile,
    output wire [READ_TILES*WIDTH-1:0] read_data
);
    generate
        if (BANKS == 1) begin : one
            reg [WIDTH-1:0] memory[0:TILES-1];
            reg [WIDTH-1:0] read_word;
            always @(posedge clock) begin
                if (write[0]) memory[write_tile] <= write_data;
                if (read) read_word <= memory[read_tile];
            end
            assign read_data = read_word;
        end else begin : many
            localparam BANK_LOG = $clog2(BANKS);
            localparam ROW_LOG = LOG - BANK_LOG;
            wire [BANKS*WIDTH-1:0] words;
            reg [BANK_LOG-1:0] read_bank;
            always @(posedge clock) if (read) read_bank <= read_tile[BANK_LOG-1:0];
            genvar b, t;
            for (b = 0; b < BANKS; b = b + 1) begin : bank
                localparam [BANK_LOG-1:0] SELF = b;
                // Which of the tiles that are written, or read, lies here, and in which row.
                wire [BANK_LOG-1:0] written = SELF - write_tile[BANK_LOG-1:0];
                /* verilator lint_off CMPCONST */
                wire wraps_write = SELF < write_tile[BANK_LOG-1:0];
                wire wraps_read = SELF < read_tile[BANK_LOG-1:0];
                /* verilator lint_on CMPCONST */
                wire [ROW_LOG-1:0] write_row = write_tile[LOG-1:BANK_LOG] + {{(ROW_LOG - 1) {1'b0}}, wraps_write};
                wire [ROW_LOG-1:0] read_row = read_tile[LOG-1:BANK_LOG] + {{(ROW_LOG - 1) {1'b0}}, wraps_read};
                wire [BANKS-1:0] write_all;
                wire [BANKS*WIDTH-1:0] data_all;
                assign write_all = {{(BANKS - WRITE_TILES) {1'b0}}, write};
                assign data_all = {{((BANKS - WRITE_TILES) * WIDTH) {1'b0}}, write_data};
                reg [WIDTH-1:0] memory[0:TILES/BANKS-1];
                reg [WIDTH-1:0] read_word;
                always @(posedge clock) begin
                    if (write_all[written]) memory[write_row] <= data_all[written*WIDTH+:WIDTH];
                    if (read) read_word <= memory[read_row];
                end
                assign words[b*WIDTH+:WIDTH] = read_word;
            end
            for (t = 0; t < READ_TILES; t = t + 1) begin : tile
                localparam [BANK_LOG-1:0] BEHIND = t;
                wire [BANK_LOG-1:0] source = read_bank + BEHIND;
                assign read_data[t*WIDTH+:WIDTH] = words[source*WIDTH+:WIDTH];
            end
        end
    endgenerate
endmodule
