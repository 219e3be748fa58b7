/* kiln project: what persons may do in which project, and what a project may have. */
#include <stdio.h>

#include "base/clock.h"
#include "base/identity.h"
#include "cli/action.h"
#include "cli/common/client.h"
#include "cli/common/tracker_call.h"
#include "cli/display.h"
#include "cli/tracker_command.h"

typedef struct project_call {
    kiln_client *client;
    kiln_arena *process;
    const kiln_args *args;
    const char *role;
    bool native, take_back, json;
} project_call;

/* ---- What is printed ---- */

static void print_settings(const kiln_msg_project_row *row) {
    for (uint32_t i = 0; i < row->settings.count; i++) {
        const kiln_msg_setting *set = &row->settings.item[i];
        kiln_setting setting;
        if (kiln_str_is(set->name, "everyone") && set->value < KILN_MEMBER_COUNT)
            printf("  everyone=%s", kiln_member_name((kiln_member)set->value));
        else if (kiln_setting_find(set->name, &setting))
            printf("  %.*s=%llu", KILN_STR_ARG(set->name), (unsigned long long)set->value);
    }
}

static void print_project(const kiln_msg_project_row *row) {
    printf("%-16.*s %-8s %3u members  %4u jobs  %4u boards  %8.0f board seconds today",
           KILN_STR_ARG(row->project), kiln_member_name((kiln_member)row->role), row->persons,
           row->jobs, row->boards, row->board_seconds);
    print_settings(row);
    if (row->refused) printf("  %llu refused", (unsigned long long)row->refused);
    if (row->text.size) printf("  - %.*s", KILN_STR_ARG(row->text));
    putchar('\n');
}

static void print_members(const kiln_msg_project_row *row) {
    for (uint32_t i = 0; i < row->members.count; i++) {
        const kiln_msg_member_row *member = &row->members.item[i];
        printf("  %-20.*s %-8s%s  added by %.*s%s\n", KILN_STR_ARG(member->person),
               kiln_member_name((kiln_member)member->role), member->native ? " native" : "",
               KILN_STR_ARG(member->by), member->seen_ms ? "" : ", never connected");
    }
}

static void print_signers(const kiln_msg_project_row *row) {
    for (uint32_t i = 0; i < row->signers.count; i++) {
        const kiln_msg_signer_row *signer = &row->signers.item[i];
        printf("  trusts %.*s%s%.*s  added by %.*s%s\n", KILN_STR_ARG(signer->signer),
               signer->node.size ? "  " : "", KILN_STR_ARG(signer->node), KILN_STR_ARG(signer->by),
               signer->ended ? ", its key is revoked or has expired: does not count" : "");
    }
}

static void print_row(const project_call *c, const kiln_msg_project_row *row) {
    if (c->json) {
        kiln_print_record(KILN_RECORD_project_row, row);
        return;
    }
    print_project(row);
    print_members(row);
    print_signers(row);
}

/* ---- What is asked ---- */

static kiln_status ask(const project_call *c, const kiln_message *question,
                       kiln_message *out_answer) {
    return kiln_projects_ask(c->client, question, c->process, out_answer);
}

/* kiln_projects_taker */
static void print_page(void *context, const kiln_msg_projects *page) {
    const project_call *c = context;
    for (uint32_t i = 0; i < page->projects.count; i++) print_row(c, &page->projects.item[i]);
    if (!c->json && page->total == 0) printf("no projects that you may see\n");
}

static kiln_status project_list(const project_call *c) {
    return kiln_projects_list(c->client, c->process, print_page, (void *)(uintptr_t)c);
}

static kiln_status project_show(const project_call *c) {
    kiln_message answer = {0},
                 question = {.type = KILN_MSG_PROJECT_QUERY,
                             .project_query = {.project = kiln_str_from(c->args->positional[0])}};
    kiln_status st = ask(c, &question, &answer);
    if (!st && answer.projects.projects.count == 1) print_row(c, &answer.projects.projects.item[0]);
    return st;
}

/* ---- What is ordered ---- */

static kiln_status order(const project_call *c, kiln_msg_project_order what) {
    kiln_message answer = {0}, question = {.type = KILN_MSG_PROJECT_ORDER, .project_order = what};
    question.project_order.project = kiln_str_from(c->args->positional[0]);
    kiln_status st = ask(c, &question, &answer);
    if (!st && answer.projects.projects.count == 1) print_row(c, &answer.projects.projects.item[0]);
    return st;
}

static kiln_status no_such_setting(kiln_str name) {
    kiln_strbuf known = {0};
    for (kiln_setting s = 0; s < KILN_SETTING_COUNT; s++)
        kiln_strbuf_printf(&known, "%s%s", s ? ", " : "", kiln_setting_name(s));
    kiln_status st = KILN_ERROR(INVALID_ARGUMENT, "there is no setting '%.*s'; there are %s",
                                KILN_STR_ARG(name), known.data);
    kiln_strbuf_deinit(&known);
    return st;
}

/* "boards=4", "everyone=viewer", "weight=none". */
static kiln_status parse_setting(const char *text, kiln_msg_setting *out) {
    kiln_str value = kiln_str_from(text), name = kiln_str_cut(&value, '=');
    kiln_setting setting;
    kiln_member role;
    if (!kiln_setting_find(name, &setting)) return no_such_setting(name);
    out->name = kiln_str_from(kiln_setting_name(setting));
    if (setting == KILN_SETTING_EVERYONE) {
        if (!kiln_member_find(value, &role))
            return KILN_ERROR(INVALID_ARGUMENT, "everyone is none, viewer, member or operator");
        out->value = role;
    } else if (kiln_str_is(value, "none")) {
        out->value = 0;
    } else if (!kiln_str_to_u64(value, &out->value) || out->value > kiln_setting_max(setting)) {
        return KILN_ERROR(INVALID_ARGUMENT, "%s=%.*s: a number up to %llu, or none",
                          kiln_setting_name(setting), KILN_STR_ARG(value),
                          (unsigned long long)kiln_setting_max(setting));
    }
    return KILN_OK;
}

static kiln_status set(const project_call *c, kiln_project_act act) {
    kiln_msg_setting item[KILN_MESSAGES_SETTINGS];
    kiln_msg_project_order what = {.act = act, .settings = {.item = item}};
    kiln_status st = KILN_OK;
    if (c->args->count > 1 + KILN_MESSAGES_SETTINGS)
        st = KILN_ERROR(INVALID_ARGUMENT, "at most %u settings at once", KILN_MESSAGES_SETTINGS);
    for (size_t i = 1; !st && i < c->args->count; i++)
        st = parse_setting(c->args->positional[i], &item[what.settings.count++]);
    return st ? st : order(c, what);
}

static kiln_status project_new(const project_call *c) { return set(c, KILN_PROJECT_NEW); }
static kiln_status project_set(const project_call *c) { return set(c, KILN_PROJECT_SET); }

static kiln_status project_drop(const project_call *c) {
    return order(c, (kiln_msg_project_order){.act = KILN_PROJECT_DROP});
}

static kiln_status project_add(const project_call *c) {
    kiln_member role = KILN_MEMBER_MEMBER;
    kiln_status st = KILN_OK;
    if (c->role && (!kiln_member_find(kiln_str_from(c->role), &role) || role == KILN_MEMBER_NONE))
        st = KILN_ERROR(INVALID_ARGUMENT, "--role is viewer, member, operator or admin");
    if (st) return st;
    return order(c, (kiln_msg_project_order){.act = KILN_PROJECT_ADD,
                                             .person = kiln_str_from(c->args->positional[1]),
                                             .role = role,
                                             .native = c->native});
}

static kiln_status project_remove(const project_call *c) {
    return order(c, (kiln_msg_project_order){.act = KILN_PROJECT_REMOVE,
                                             .person = kiln_str_from(c->args->positional[1])});
}

/* Makes a signer whole of which a person typed the beginning: one that the project trusts. */
static kiln_status complete_signer(const project_call *c, kiln_str *signer) {
    kiln_identity_search search = {.typed = *signer, .arena = c->process};
    kiln_message answer = {0},
                 question = {.type = KILN_MSG_PROJECT_QUERY,
                             .project_query = {.project = kiln_str_from(c->args->positional[0])}};
    kiln_status st = ask(c, &question, &answer);
    for (uint32_t i = 0; !st && i < answer.projects.projects.count; i++) {
        const kiln_msg_project_row *row = &answer.projects.projects.item[i];
        for (uint32_t k = 0; k < row->signers.count; k++)
            kiln_identity_try(&search, row->signers.item[k].signer, row->signers.item[k].node);
    }
    return st || search.count == 0 ? st : kiln_identity_found(&search, "signer", signer);
}

static kiln_status project_trust(const project_call *c) {
    kiln_str signer = kiln_str_from(c->args->positional[1]);
    kiln_status st = c->take_back ? complete_signer(c, &signer) : KILN_OK;
    if (st) return st;
    return order(c, (kiln_msg_project_order){.act = c->take_back ? KILN_PROJECT_DISTRUST
                                                                 : KILN_PROJECT_TRUST,
                                             .signer = signer});
}

/* ---- The command ---- */

#define ACTIONS(X)                                                                               \
    X("list", "", project_list, "list the projects that you may see")                            \
    X("show", "PROJECT", project_show, "show its members, settings and trusted signers")         \
    X("new", "PROJECT [SETTING=N...]", project_new, "make a project")                            \
    X("set", "PROJECT SETTING=N...", project_set, "set quotas, weight and the role of everyone") \
    X("quota", "PROJECT SETTING=N...", project_set, "the same as set")                           \
    X("add", "PROJECT PERSON", project_add, "add a person, or change a role (--role)")           \
    X("remove", "PROJECT PERSON", project_remove, "remove a person")                             \
    X("trust", "PROJECT SIGNER", project_trust,                                                  \
      "let records of a signer count: a public key (64 hexadecimal digits, see kiln key trust) " \
      "or a node of the tracker's keys")                                                         \
    X("drop", "PROJECT", project_drop, "remove a project")

static const kiln_action actions[] = {
#define X(name, arguments, run, help) {name, arguments, help},
    ACTIONS(X)
#undef X
};

static kiln_status (*const run_action[])(const project_call *call) = {
#define X(name, arguments, run, help) run,
    ACTIONS(X)
#undef X
};

kiln_status kiln_cmd_project(kiln_arena *process, int argc, char **argv) {
    bool waits = false;
    kiln_client_options client = {.waits = kiln_waits_show, .waits_context = &waits};
    kiln_args args;
    project_call c = {.process = process, .args = &args};
    const kiln_opt option[] = {
        {"role", KILN_OPT_TEXT, &c.role, "R",
         "add: viewer, member, operator or admin (default member)"},
        {"native", KILN_OPT_FLAG, &c.native, NULL,
         "add: may run native code of its own on boards; needs an admin key"},
        {"remove", KILN_OPT_FLAG, &c.take_back, NULL,
         "trust: no longer count records of that signer in the project's jobs"},
        KILN_CLIENT_OPTIONS(&client),
        {"json", KILN_OPT_FLAG, &c.json, NULL, "print one object per line"},
    };
    static const kiln_actions table = {.command = "project",
                                       .summary = "Manages projects: members, rights and quotas. "
                                                  "docs/reference/keys.md lists the settings.",
                                       .action = actions,
                                       .count = KILN_ARRAY_COUNT(actions),
                                       .has_default = true};
    size_t index = 0;
    kiln_status st = kiln_action_parse(&table, option, KILN_ARRAY_COUNT(option), argc, argv,
                                       process, &args, &index);
    if (st || args.help) return st;
    st = kiln_client_open(&client, process, &c.client);
    if (!st) st = run_action[index](&c);
    kiln_client_close(c.client);
    return st;
}
