/* Who is believed, and what is forgotten: kiln db forget, quarantine, restore, prune, verify, and
 * kiln key trust. */
#include <stdio.h>

#include "base/clock.h"
#include "cli/cli.h"
#include "cli/common/json.h"
#include "cli/db_call.h"
#include "db/trust.h"
#include "proto/signing.h"

static kiln_status load_signing(const kiln_db_call *c, kiln_signing *out_signing) {
    char *home = NULL;
    kiln_status st = kiln_home(c->process, &home);
    return st ? st : kiln_signing_load(home, NULL, out_signing);
}

static kiln_status pass(const kiln_db_call *c, kiln_db_verdict verdict, const char *done) {
    kiln_signing own = {0};
    uint32_t count = 0;
    kiln_status st = load_signing(c, &own);
    if (!st)
        st = kiln_db_apply_verdict(
            c->db,
            &(kiln_db_verdict_request){.verdict = verdict,
                                       .id = kiln_str_from(c->argument),
                                       .reason = kiln_str_from(c->reason),
                                       .signer = own.signer,
                                       .now_wall_ns = (int64_t)kiln_clock_wall_ns()},
            &count);
    kiln_signer_destroy(own.signer);
    if (!st && count == 0)
        st = KILN_ERROR(NOT_FOUND, "%s: no record here has that identity%s", c->argument,
                        verdict == KILN_DB_RESTORED ? " and is in quarantine" : "");
    if (!st) st = kiln_db_commit(c->db);
    if (st) return st;
    if (c->json)
        kiln_json_line(
            json_pack("{s:s, s:s, s:i}", "event", done, "id", c->argument, "records", (int)count));
    else
        printf("%u records %s\n", count, done);
    return KILN_OK;
}

kiln_status kiln_db_call_forget(const kiln_db_call *c) {
    return pass(c, KILN_DB_FORGOTTEN, "forgotten");
}

kiln_status kiln_db_call_quarantine(const kiln_db_call *c) {
    return pass(c, KILN_DB_QUARANTINE, "quarantined");
}

kiln_status kiln_db_call_restore(const kiln_db_call *c) {
    return pass(c, KILN_DB_RESTORED, "restored");
}

kiln_status kiln_db_call_prune(const kiln_db_call *c) {
    uint32_t count = 0;
    kiln_status st = kiln_db_prune(c->db, &count);
    if (!st) st = kiln_db_commit(c->db);
    if (st) return st;
    if (c->json)
        kiln_json_line(json_pack("{s:s, s:i}", "event", "pruned", "records", (int)count));
    else
        printf("%u records removed\n", count);
    return KILN_OK;
}

kiln_status kiln_db_call_verify(const kiln_db_call *c) {
    kiln_db_verification v;
    kiln_status st = kiln_db_verify(c->db, &v);
    if (st) return st;
    if (c->json)
        kiln_json_line(json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "event", "verified",
                                 "right", (json_int_t)v.right, "wrong", (json_int_t)v.wrong,
                                 "before_signatures", (json_int_t)v.unsigned_before, "unsigned",
                                 (json_int_t)v.unsigned_others, "counting", (json_int_t)v.counting,
                                 "hints", (json_int_t)v.hints, "quarantined",
                                 (json_int_t)v.quarantined));
    else
        printf("signatures: %llu right, %llu wrong; without one: %llu from before signatures, %llu "
               "others\nrecords: %llu count, %llu are hints, %llu are quarantined\n",
               (unsigned long long)v.right, (unsigned long long)v.wrong,
               (unsigned long long)v.unsigned_before, (unsigned long long)v.unsigned_others,
               (unsigned long long)v.counting, (unsigned long long)v.hints,
               (unsigned long long)v.quarantined);
    if (v.wrong)
        return KILN_ERROR(DATA_LOSS,
                          "%llu signatures are wrong, the first of trial %s: kiln db forget %s",
                          (unsigned long long)v.wrong, v.first_wrong, v.first_wrong);
    return KILN_OK;
}

/* ---- kiln key trust -------------------------------------------------------------------------- */

static kiln_status print_signer(void *context, kiln_db_table table, const void *row) {
    const kiln_db_call *c = context;
    const kiln_db_signer *signer = row;
    (void)table;
    if (c->json) {
        kiln_json_line(json_pack("{s:s, s:o, s:o, s:o}", "event", "signer", "public",
                                 kiln_json_str(signer->id), "name", kiln_json_str(signer->name),
                                 "trust", kiln_json_str(signer->trust)));
        return KILN_OK;
    }
    kiln_print_text(signer->id, KILN_TEXT_LINE, stdout);
    printf("  %-8.*s  ", KILN_STR_ARG(signer->trust));
    kiln_print_text(signer->name, KILN_TEXT_LINE, stdout);
    putchar('\n');
    return KILN_OK;
}

/* kiln_db_visit */
static kiln_status try_signer(void *context, kiln_db_table table, const void *row) {
    const kiln_db_signer *signer = row;
    (void)table;
    kiln_identity_try(context, signer->id, signer->name);
    return KILN_OK;
}

/* Whom to refuse may be named by a beginning. Whom to believe may not: keys of strangers come with
 * records, and one can be made that begins like another. */
static kiln_status complete_signer(const kiln_db_call *c, const char **who) {
    kiln_identity_search search = {.typed = kiln_str_from(*who), .arena = c->process};
    kiln_str id = {0};
    kiln_status st = kiln_db_each(c->db, KILN_DB_TABLE_SIGNER, try_signer, &search);
    if (st || search.count == 0) return st;
    st = kiln_identity_found(&search, "signer", &id);
    if (!st) *who = kiln_str_dup(c->process, id);
    return st;
}

kiln_status kiln_db_call_trust(const kiln_db_call *c, const char *who, bool no) {
    kiln_db_signer known = {0};
    kiln_sign_public half;
    bool found = false;
    if (!who) return kiln_db_each(c->db, KILN_DB_TABLE_SIGNER, print_signer, (void *)(uintptr_t)c);
    kiln_status st = no ? complete_signer(c, &who) : KILN_OK;
    kiln_str id = kiln_str_from(who);
    if (!st) st = kiln_db_find_signer(c->db, id, c->process, &known, &found);
    if (!st && !found && !kiln_str_is(id, KILN_DB_UNSIGNED) && !kiln_sign_public_parse(id, &half))
        st = KILN_ERROR(NOT_FOUND,
                        "%s knows no signer '%s'; name its public key (64 hexadecimal digits), or "
                        "'unsigned' for all records without a signature",
                        c->path, who);
    if (!st)
        st = kiln_db_set_trust(c->db, found ? known.id : id, known.name,
                               no ? KILN_DB_TRUST_REFUSED : KILN_DB_TRUST_PERSON,
                               (int64_t)kiln_clock_wall_ns());
    if (!st) st = kiln_db_commit(c->db);
    if (st) return st;
    if (c->json)
        kiln_json_line(json_pack("{s:s, s:s}", "event", no ? "refused" : "trusted", "signer", who));
    else
        printf(no ? "records of %s are hints from here on\n" : "records of %s count from here on\n",
               who);
    return KILN_OK;
}
