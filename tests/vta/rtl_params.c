/* rtl_params CONFIG: prints what a configuration is to the hardware of vta/rtl (vta/rtl_params.h).
 */
#include <stdio.h>

#include "vta/rtl_params.h"

int main(int argc, char **argv) {
    if (argc != 2) {
        fprintf(stderr, "usage: rtl_params CONFIG\n");
        return 2;
    }
    kiln_vta_config config;
    kiln_strbuf text = {0};
    kiln_status st = kiln_vta_config_parse(kiln_str_from(argv[1]), &config);
    if (!st) st = kiln_vta_rtl_params_print(&config, &text);
    if (st)
        fprintf(stderr, "%s\n", kiln_status_text(st));
    else
        fwrite(text.data, 1, text.size, stdout);
    kiln_strbuf_deinit(&text);
    const int failed = st != NULL;
    kiln_status_free(st);
    return failed;
}
