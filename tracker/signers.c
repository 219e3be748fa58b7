/* Signers that a project trusts: their records count in its jobs. A signer is a public half of a
 * key. A signer whose key is in the tracker's list counts only while that key is in force. */
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "tracker/state.h"

_Static_assert(sizeof(kiln_sign_public) == KILN_MESSAGES_SIGNER, "as messages carry it");

static kiln_tracker_trusted *find(const kiln_tracker_project *project,
                                  const kiln_sign_public *half) {
    for (uint32_t i = 0; i < project->trusted.count; i++)
        if (memcmp(&project->trusted.data[i].half, half, sizeof *half) == 0)
            return &project->trusted.data[i];
    return NULL;
}

void kiln_tracker_know_keys(kiln_tracker *t, kiln_tracker_find_key find_key, void *context) {
    t->projects.find_key = find_key;
    t->projects.find_key_context = context;
}

static bool find_key(const kiln_tracker *t, kiln_str node, const kiln_sign_public *half,
                     kiln_tracker_known_key *out) {
    return t->projects.find_key &&
           t->projects.find_key(t->projects.find_key_context, node, half, out);
}

/* Whether the signer counts now. `*out_half`: the half with which its node signs now, which differs
 * after a rotation of its key. */
static bool counts(const kiln_tracker *t, const kiln_tracker_trusted *trusted,
                   kiln_sign_public *out_half) {
    kiln_tracker_known_key key = {.half = trusted->half};
    const bool yes =
        !trusted->node[0] || find_key(t, kiln_str_from(trusted->node), &trusted->half, &key);
    *out_half = key.half;
    return yes;
}

/* ---- On disk ---- */

static uint64_t keep(kiln_tracker *t, const kiln_tracker_project *project,
                     const kiln_tracker_trusted *trusted, bool removed) {
    kiln_msg_kept_signer kept = {.node = kiln_str_from(trusted->node),
                                 .by = kiln_str_from(trusted->by),
                                 .given_ms = trusted->given_ms};
    kiln_strbuf id = {0};
    kiln_strbuf_printf(&id, "%s/%s", project->name, trusted->text);
    const kiln_tracker_row row = {
        .kind = KILN_TRACKER_ROW_SIGNER, .removed = removed, .id = kiln_strbuf_view(&id)};
    const uint64_t persist = kiln_tracker_persist_record(t, row, KILN_RECORD_kept_signer, &kept);
    kiln_strbuf_deinit(&id);
    return persist;
}

kiln_status kiln_tracker_trusted_restore(kiln_tracker_project *project, kiln_str half,
                                         const kiln_msg_kept_signer *kept) {
    kiln_tracker_trusted trusted = {.given_ms = kept->given_ms};
    if (!kiln_sign_public_parse(half, &trusted.half) || kept->node.size >= sizeof trusted.node)
        return KILN_ERROR(DATA_LOSS, "it names no signer");
    if (!project) return KILN_OK; /* one of a project that was dropped is of no use */
    snprintf(trusted.node, sizeof trusted.node, "%.*s", KILN_STR_ARG(kept->node));
    kiln_sign_public_print(&trusted.half, trusted.text);
    kiln_tracker_set_text(trusted.by, kept->by);
    kiln_vec_push(&project->trusted, trusted);
    return KILN_OK;
}

/* ---- Orders ---- */

/* Finds the signer that the order names. */
static kiln_status name_signer(const kiln_tracker *t, kiln_str text, kiln_tracker_known_key *out) {
    if (kiln_sign_public_parse(text, &out->half)) {
        const kiln_sign_public half = out->half;
        if (!find_key(t, (kiln_str){0}, &half, out)) out->node[0] = 0;
        out->half = half;
        return KILN_OK;
    }
    if (text.size && find_key(t, text, NULL, out)) return KILN_OK;
    return KILN_ERROR(NOT_FOUND,
                      "'%.*s' is neither a public key (64 hexadecimal digits) nor a node with a "
                      "key that signs in the tracker's list (ROLE/NODE, see kiln key list)",
                      KILN_STR_ARG(text));
}

/* Also finds by its node a signer whose key was removed from the list. */
static kiln_tracker_trusted *find_named(const kiln_tracker *t, const kiln_tracker_project *project,
                                        kiln_str text) {
    kiln_tracker_known_key key;
    for (uint32_t i = 0; i < project->trusted.count; i++)
        if (text.size && kiln_str_is(text, project->trusted.data[i].node))
            return &project->trusted.data[i];
    kiln_status st = name_signer(t, text, &key);
    const bool is_one = !st;
    kiln_status_free(st); /* the name is unknown */
    return is_one ? find(project, &key.half) : NULL;
}

kiln_status kiln_tracker_trusted_check(const kiln_tracker *t, const kiln_tracker_project *project,
                                       const kiln_msg_project_order *order) {
    kiln_tracker_known_key key;
    if (order->act == KILN_PROJECT_DISTRUST) {
        if (project && find_named(t, project, order->signer)) return KILN_OK;
        return KILN_ERROR(NOT_FOUND, "project %.*s does not trust %.*s",
                          KILN_STR_ARG(order->project), KILN_STR_ARG(order->signer));
    }
    kiln_status st = name_signer(t, order->signer, &key);
    if (st || !project || find(project, &key.half)) return st;
    const uint64_t bound = project->setting[KILN_SETTING_SIGNERS];
    const uint64_t most = bound ? bound : KILN_MESSAGES_TRUSTED;
    if (project->trusted.count < most) return KILN_OK;
    return KILN_ERROR(RESOURCE_EXHAUSTED, "project %s trusts %u signers already, of %llu (%s)",
                      project->name, project->trusted.count, (unsigned long long)most,
                      kiln_setting_name(KILN_SETTING_SIGNERS));
}

uint64_t kiln_tracker_trusted_add(kiln_tracker *t, const kiln_tracker_peer *client,
                                  kiln_tracker_project *project, kiln_str signer) {
    kiln_tracker_known_key key;
    kiln_status st = name_signer(t, signer, &key);
    KILN_CHECK(st == NULL); /* the order was checked */
    kiln_tracker_trusted *trusted = find(project, &key.half);
    if (!trusted) {
        kiln_tracker_trusted added = {.half = key.half};
        kiln_sign_public_print(&added.half, added.text);
        kiln_vec_push(&project->trusted, added);
        trusted = &kiln_vec_last(&project->trusted);
    }
    snprintf(trusted->node, sizeof trusted->node, "%s", key.node);
    kiln_tracker_set_text(trusted->by, kiln_str_from(client->person));
    trusted->given_ms = kiln_tracker_wall_ms(t);
    return keep(t, project, trusted, false);
}

static uint64_t remove_one(kiln_tracker *t, kiln_tracker_project *project,
                           kiln_tracker_trusted *trusted) {
    const uint64_t persist = keep(t, project, trusted, true);
    *trusted = kiln_vec_pop(&project->trusted);
    return persist;
}

uint64_t kiln_tracker_trusted_remove(kiln_tracker *t, kiln_tracker_project *project,
                                     kiln_str signer) {
    return remove_one(t, project, find_named(t, project, signer));
}

void kiln_tracker_trusted_drop(kiln_tracker *t, kiln_tracker_project *project) {
    while (project->trusted.count) remove_one(t, project, &kiln_vec_last(&project->trusted));
}

/* ---- Rows and messages ---- */

uint32_t kiln_tracker_trusted_rows(const kiln_tracker *t, const kiln_tracker_project *project,
                                   kiln_msg_signer_row out[KILN_MESSAGES_TRUSTED]) {
    for (uint32_t i = 0; i < project->trusted.count; i++) {
        const kiln_tracker_trusted *trusted = &project->trusted.data[i];
        kiln_sign_public half;
        out[i] = (kiln_msg_signer_row){.signer = kiln_str_from(trusted->text),
                                       .node = kiln_str_from(trusted->node),
                                       .by = kiln_str_from(trusted->by),
                                       .given_ms = trusted->given_ms,
                                       .ended = !counts(t, trusted, &half)};
    }
    return project->trusted.count;
}

kiln_str kiln_tracker_trusted_of(const kiln_tracker *t, const kiln_tracker_project *project,
                                 kiln_sign_public out[KILN_MESSAGES_TRUSTED]) {
    kiln_sign_public next[KILN_MESSAGES_TRUSTED];
    uint32_t count = 0, next_count = 0;
    for (uint32_t i = 0; project && i < project->trusted.count; i++) {
        const kiln_tracker_trusted *trusted = &project->trusted.data[i];
        if (!counts(t, trusted, &next[next_count])) continue;
        out[count++] = trusted->half;
        next_count += memcmp(&next[next_count], &trusted->half, sizeof trusted->half) != 0;
    }
    /* After a rotation both halves count, as far as there is room. */
    for (uint32_t i = 0; i < next_count && count < KILN_MESSAGES_TRUSTED; i++)
        out[count++] = next[i];
    return (kiln_str){(const char *)out, count * sizeof *out};
}
