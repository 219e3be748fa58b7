/* What the routes about rows share: lists, filters by text, questions to the tracker that are
 * answered by one row. */
#ifndef KILN_WEB_LISTS_H
#define KILN_WEB_LISTS_H

#include "web/copy.h"
#include "web/routes.h"

/* Whether `text` contains `part`, without regard to the case of ASCII letters; an empty part is in
 * every text. */
bool kiln_text_contains(kiln_str text, kiln_str part);

/* A list that is being answered: {"total":N,"items":[...]} of those that fit. */
typedef struct kiln_list {
    kiln_strbuf body; /* of the items */
    uint64_t limit, offset, total;
} kiln_list;
/* With the call's `limit` and `offset`. */
kiln_list kiln_list_of(const kiln_call *call);
/* An item fits. True: it is in the answer, and is to be appended to `body`. */
bool kiln_list_add(kiln_list *list);
void kiln_list_answer(kiln_list *list, kiln_call *call);

/* Asks, and answers with the one row of the answer as JSON; its error, or NOT_FOUND. */
void kiln_web_answer_row(kiln_call *call, const kiln_message *question);
/* The same, with the call's person told nothing: `done` answers. */
void kiln_web_ask(kiln_call *call, const kiln_message *question,
                  void (*done)(kiln_call *call, const kiln_message *answer, kiln_status st));

#endif
