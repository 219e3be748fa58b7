/* Routes about the server itself. */
#include "web/routes.h"

#define OK 200u

void kiln_web_health(kiln_call *call) {
    kiln_http_answer_constant(call->request, OK, "text/plain; charset=utf-8", KILN_STR("ok\n"));
}

void kiln_web_openapi(kiln_call *call) {
    kiln_http_answer_constant(call->request, OK, "application/json", call->web->openapi);
}
