#include <string.h>

#include "base/alloc.h"
#include "base/check.h"
#include "tracker/state.h"

#define SEEN_MS UINT64_C(3600000) /* a row is written again so long after the last time */

void kiln_tracker_people_init(kiln_tracker *t) { kiln_map_init(&t->people.of_name); }

void kiln_tracker_people_free(kiln_tracker *t) {
    for (uint32_t i = 0; i < t->people.all.count; i++) kiln_free(t->people.all.data[i]);
    kiln_vec_deinit(&t->people.all);
    kiln_map_deinit(&t->people.of_name);
}

kiln_tracker_person *kiln_tracker_person_find(kiln_tracker *t, kiln_str name) {
    return kiln_tracker_find(&t->people.of_name, name);
}

/* Names are those of keys and of this machine's users, so that there are not too many. */
kiln_tracker_person *kiln_tracker_person_named(kiln_tracker *t, kiln_str name) {
    kiln_tracker_person *person = kiln_tracker_person_find(t, name);
    if (person) return person;
    person = kiln_alloc(sizeof *person);
    kiln_tracker_set_text(person->name, name);
    kiln_vec_push(&t->people.all, person);
    kiln_map_put(&t->people.of_name, kiln_str_from(person->name), (uintptr_t)person);
    return person;
}

static void see_person(kiln_tracker *t, kiln_tracker_person *person) {
    const uint64_t now_ms = kiln_tracker_wall_ms(t);
    if (person->seen_ms && now_ms - person->seen_ms < SEEN_MS) return;
    if (!person->seen_ms) person->first_ms = now_ms;
    person->seen_ms = now_ms;
    kiln_msg_kept_person kept = {.first_ms = person->first_ms, .seen_ms = person->seen_ms};
    const kiln_tracker_row row = {.kind = KILN_TRACKER_ROW_PERSON,
                                  .id = kiln_str_from(person->name)};
    kiln_tracker_persist_record(t, row, KILN_RECORD_kept_person, &kept);
    kiln_tracker_may_wait(t);
}

kiln_tracker_person *kiln_tracker_person_get(kiln_tracker *t, const kiln_tracker_peer *peer) {
    kiln_tracker_person *person =
        kiln_tracker_person_named(t, kiln_str_from(peer->is_proven ? peer->person : ""));
    if (person->name[0] && !peer->is_owner) see_person(t, person);
    return person;
}

kiln_status kiln_tracker_person_restore(kiln_tracker *t, const kiln_tracker_row *row,
                                        kiln_arena *scratch) {
    kiln_msg_kept_person kept = {0};
    kiln_status st = kiln_record_decode(KILN_RECORD_kept_person, row->body, scratch, &kept);
    if (st) return st;
    kiln_tracker_person *person = kiln_tracker_person_named(t, row->id);
    person->first_ms = kept.first_ms;
    person->seen_ms = kept.seen_ms;
    return KILN_OK;
}
