#!/usr/bin/env python3
"""Plants one fault at a time into the three steps, or into what stands for a shell or a server in tests/sim, and wants the
simulator to find each.

usage: mutants.py SOURCE_ROOT BUILD_ROOT [SEEDS [WORDS]]

A checker that nobody has seen fail proves nothing. Faults that another rule makes good (a lost LEASE_LOST, which the
next LEASE_RENEW repeats) are left to the unit tests. Each row is (name, file, text, replacement), white space as it comes; the file is
compiled with the replacement and linked with the simulator's own objects and libraries."""
import pathlib
import re
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "mutate"))
import building  # noqa: E402

MUTANTS = [
    ("grant before it is on disk", "tracker/leases.c", "kiln_tracker_request_remove(t, request);\n    add_lease(t, lease);",
     "kiln_tracker_request_remove(t, request);\n    add_lease(t, lease);\n    send_grant(t, lease, lease->trials);"),
    ("lease numbers start anew after a restart", "tracker/leases.c",
     "    t->leases.epoch = KILN_MAX(t->leases.epoch, row->epoch);\n}", "    (void)t, (void)row;\n}"),
    ("a slot is granted twice", "tracker/scheduler.c", "while (device->board->slot[slot]) slot++;", ""),
    ("every target's slots begin at the board's first", "tracker/boards.c", "device->first_slot = slots;", "device->first_slot = 0;"),
    ("a whole lease takes the slots of all targets", "tracker/boards.c", "return device && device == kiln_tracker_board_device(board, other);",
     "return device != NULL && other < KILN_TRACKER_SLOTS_MAX;"),
    ("silent peers are kept", "tracker/tracker.c", "    drop_silent_peers(t);\n", ""),
    ("a job is given to a tuner before that is on disk", "tracker/job_assign.c",
     "    kiln_tracker_job_persist_assignment(t, job);", "    kiln_tracker_job_persist_assignment(t, job); send_assign(t, job, tuner);"),
    ("a lost client's job runs on for ever", "tracker/job_life.c",
     "if (!job->spec.detach) job->client_until_ns = t->effects.now_ns + KILN_TRACKER_CLIENT_GRACE_NS;", ""),
    ("a job is not given back to its tuner", "tracker/job_assign.c",
     "        if (!job->assigning) send_assign(t, job, tuner);", ""),
    ("a lost tuner keeps its job", "tracker/job_assign.c",
     "    if (job->state == KILN_JOB_RUNNING) take_from_lost_tuner(t, job);\n", ""),
    ("nobody asks whether a board is there", "tracker/job_assign.c",
     "if (!job->spec.detach && t->effects.now_ns - job->unserved_ns >= KILN_TRACKER_WAIT_NS)", "if (false)"),
    ("leases do not expire", "tracker/leases.c", "else if (t->effects.now_ns >= lease->expires_ns)", "else if (false)"),
    ("the end of a job is told before it is written", "tracker/job_life.c",
     "    kiln_tracker_job_persist_and_wait(t, job);\n    leave(t, job);",
     "    leave(t, job);"),
    ("two trials run in one slot", "rpc-server/trials.c",
     "taken & 1U << e->trial.slot ||", ""),
    ("a trial is linked beside one that times", "rpc-server/trials.c", "s->disturbs[e->trial.slot] & quiet)", "false)"),
    ("two slots time at once", "rpc-server/trials.c", "!(s->disturbs[e->trial.slot] & slots_where(s, is_loud))", "true"),
    ("a hanging child is left alone", "rpc-server/trials.c", "        if (over)\n            kiln_server_kill(", "        if (false)\n            kiln_server_kill("),
    ("a lost lease's child runs on", "rpc-server/trials.c", "if (s->entry.data[i]->trial.lease == lease) kiln_server_void", "if (false) kiln_server_void"),
    ("a board takes trials under any lease", "rpc-server/server.c", "if (trial->lease < *newest) return false;", ""),
    ("a newer lease does not end what came under older ones", "rpc-server/server.c",
     "e->trial.lease < trial->lease) kiln_server_void(s, e);", "false) kiln_server_void(s, e);"),
    ("a repeated TRIAL runs again", "rpc-server/server.c", "    if (known) {", "    if (false) {"),
    ("a result of another attempt is taken", "tuner/boards.c",
     "if (trial->state != KILN_TRIAL_SENT || trial->lease != result->lease || trial->attempt != result->attempt) return;", ""),
    ("results are observed as they come", "tuner/pipeline.c",
     "    if (!trial || trial->state < KILN_TRIAL_RECORDED) return false;\n",
     "    for (uint32_t i = 0; i < job->trial.count; i++)\n"
     "        if (job->trial.data[i]->state >= KILN_TRIAL_RECORDED) trial = job->trial.data[i];\n"
     "    if (!trial || trial->state < KILN_TRIAL_RECORDED) return false;\n"),
    ("tasks are chosen by results that were not observed yet", "tuner/pipeline.c",
     "uint32_t under_way = task->next_propose - task->next_observe;",
     "uint32_t under_way = task->next_propose - (task->done < task->next_propose ? task->done : task->next_propose);"),
    ("stored results are measured again", "tuner/pipeline.c",
     "if (!stored) return;", "return;"),
    ("trials of a lost lease are forgotten", "tuner/boards.c", "    take_back_trials(job, lost->lease, lost->code == KILN_UNAVAILABLE);\n", ""),
    ("the end of a job is sent once", "tuner/job_life.c", "        if (again) kiln_tuner_job_send_done(job);\n", ""),
    ("a failed upload is not repeated", "tuner/pipeline.c", "if (trial->state == KILN_TRIAL_UPLOADING) upload(job, trial);",
     "if (trial->state == KILN_TRIAL_UPLOADING && !trial->upload_failures && !trial->upload_again_ns) upload(job, trial);"),
    ("recipes go to boards of another compiler", "tuner/recipes.c", "kiln_str_is(lease->grant.builds, codegen)",
     "lease->grant.builds.size > 0"),
    ("a recipe whose lease was lost goes as an artefact", "tuner/trials.c",
     "trial->state = trial->by_recipe ? KILN_TRIAL_TO_BUILD : KILN_TRIAL_READY;", "trial->state = KILN_TRIAL_READY;"),
    ("a candidate is started before it is built", "rpc-server/trials.c", "e->state = KILN_ENTRY_BUILDING;",
     "e->state = KILN_ENTRY_READY;"),
    ("samples out of band are kept", "tuner/boards.c",
     "bool spoilt = result->outcome == KILN_OUTCOME_OK && disturbed;", "bool spoilt = false && disturbed;"),
    ("a restored lease has nobody", "tracker/leases.c",
     "    kiln_tracker_set_text(lease->node, row->node);\n"
     "    if (!row->node.size && job) kiln_tracker_set_text(lease->node, kiln_str_from(job->tuner));\n"
     "    /* A lease of a job that has ended, or that another tuner has, expires at once. */\n"
     "    bound_hold(t, lease);\n"
     "    bool is_due = lease->job && job->state == KILN_JOB_RUNNING && strcmp(lease->node, job->tuner) == 0;\n"
     "    if (!is_due) lease->expires_ns = t->effects.now_ns;\n", "bound_hold(t, lease);"),
    ("a board out of service is leased", "tracker/boards.c", "board->service == KILN_BOARD_IN_SERVICE && !board->lacking;", "!board->lacking;"),
    ("an order is forgotten by a restart", "tracker/boards.c", "board->service = (kiln_board_service)kept.service;", ""),
    ("a free slot is offered to nobody", "tracker/boards.c", "kiln_vec_push(&t->boards.offered, device);", "device->offered = false;"),
    ("a quarantine of ours never ends", "tracker/board_service.c", "if (board->probation_ns && t->effects.now_ns >= board->probation_ns)", "if (false)"),
    ("anybody's answer is believed", "tracker/relay.c", "if (!lease || lease->board != peer->board) {", "if (!lease) {"),
    ("a result is acknowledged before it is stored", "tuner/boards.c",
     "record(job, trial, result, lease);", "record(job, trial, result, lease);\n    kiln_tuner_acknowledge(t, result->trial, result->attempt, result->lease);"),
    ("weights do not count", "tracker/jobs.c", "const uint32_t asked = KILN_MAX(job->spec.weight, 1u);", "const uint32_t asked = 1; (void)job;"),
    ("a lease costs nothing once it is over", "tracker/usage.c",
     "    project->used += (double)held_ns / project->weight;\n", ""),
    ("what a project had does not count", "tracker/scheduler.c", "double claim = kiln_tracker_project_claim(t, project);",
     "double claim = 0;"),
    ("who pauses is paid for it afterwards", "tracker/usage.c",
     "    project->used = KILN_MAX(project->used, t->projects.shared - CREDIT_LEASES * lease_ns);\n", "(void)lease_ns; (void)t;"),
    ("priority is for ever", "tracker/scheduler.c", " + (t->effects.now_ns - request->since_ns) / KILN_TRACKER_AGEING_NS", ""),
    ("priority does not count", "tracker/scheduler.c", "return priority + (t->effects.now_ns", "return 0 * priority + (t->effects.now_ns"),
    ("a job competes by the request that likes the board", "tracker/scheduler.c",
     "        if (may_have(t, device, job->queue.requests.data[i])) return job->queue.requests.data[i];\n    return NULL;",
     "        if (kiln_str_is(job->queue.requests.data[i]->asked.board, device->board->node)) return job->queue.requests.data[i];\n"
     "    return job->queue.requests.count && may_have(t, device, job->queue.requests.data[0]) ? job->queue.requests.data[0] : NULL;"),
    ("the database takes what an old leader writes", "tests/sim/database.c", "if (session != db->leader) return false;", ""),
    ("a tracker that does not lead serves", "tests/sim/tracker_node.c",
     "if (sim_database_lead(node->world->database, s->session))",
     "if (sim_database_lead(node->world->database, s->session) || sim_chance(node->world, 10))"),
    ("a tuner does not wait for its claim", "tests/sim/tuner_node.c",
     "if (!is_open || !take_claim(node, job->id)) {", "if (!is_open || (take_claim(node, job->id), false)) {"),
    ("a claim is renewed without the tracker", "tests/sim/tuner_node.c",
     "if (!node->conn || !node->conn->shaken || take_claim(node, job->id)) return true;", "if (take_claim(node, job->id)) return true;"),
    ("a tuner that lost its claim goes on", "tuner/job_life.c",
     "    if (job->state > KILN_TUNER_JOB_RUNNING) return;\n    const kiln_message assign", "    return;\n    const kiln_message assign"),
    ("a key speaks under any name", "proto/wire/keys.c", "if (!kiln_str_is(hello->node, key->node))", "if (false)"),
    ("a key speaks as any role", "proto/wire/keys.c", "return role == as || (", "return true || role == as || ("),
    ("a revoked key stays", "proto/wire/keys.c", "    if (count == 0) return 0;", "    return count;"),
    ("anybody may send anything", "tracker/tracker.c", "if (!rule || !kiln_message_may_send(message->type, peer->role))", "if (!rule)"),
    ("a lease is anybody's", "tracker/leases.c", "if (lease && is_holder(lease, tuner) && !lease->persist) {", "if (lease && !lease->persist) {"),
    ("who says the boot of a tuner takes its place", "tracker/tracker.c", "return !holder || strcmp(holder->node, peer->node) == 0 ||", "return true ||"),
    ("pins do not count", "tests/sim/store.c", "|| is_pinned(world, blob)) continue;", ") continue;"),
    ("living peers are dropped for their silence", "tracker/tracker.c", "    kiln_tracker_peer_heard(t, peer);\n    message_rule", "    message_rule"),
    ("boards at once are not bounded", "tracker/usage.c", "(!boards || project->slots + slots <= boards)", "true"),
    ("time of boards is bounded too late", "tracker/usage.c", "(double)project->setting[KILN_SETTING_BOARD_SECONDS] * (double)KILN_NS_PER_S;",
     "4 * (double)project->setting[KILN_SETTING_BOARD_SECONDS] * (double)KILN_NS_PER_S;"),
    ("jobs are not bounded", "tracker/quotas.c", "if (quota && project->jobs >= quota)", "if (false)"),
    ("the queue is not bounded", "tracker/quotas.c", "if (project->queue.count < most) return KILN_OK;", "return KILN_OK;"),
    ("a lease is held for ever", "tracker/leases.c", "lease->hold_until_ns && t->effects.now_ns >= lease->hold_until_ns", "false"),
    ("strangers may do what members may", "tracker/rights.c", "return standing->rules || (int)standing->role >= lowest;", "return true;"),
    ("what is one's own is anybody's", "tracker/rights.c", "own ? right_table[right].own : right_table[right].any", "right_table[right].own"),
    ("a handler hashes a blob", "tracker/tracker.c", "    message_rule rule = find_rule(message->type);",
     "    message_rule rule = find_rule(message->type); static char blob[1 << 20]; kiln_digest digest;\n"
     "    kiln_digest_of(blob, sizeof blob, &digest);\n"),
    ("a handler walks a table", "rpc-server/server.c", "case KILN_MSG_TRIAL: on_trial(s, message); break;",
     "case KILN_MSG_TRIAL: {\n#include \"base/thread_work.h\"\n"
     "    kiln_thread_work_here()->rows += 6000; on_trial(s, message); break; }"),
    ("a bundle's rows are stored as if they were measured here", "db/bundle.c", "return st ? st : kiln_db_import_row(import, table, row);",
     "return st ? st : table == KILN_DB_TABLE_RECORD ? kiln_db_put(*(kiln_db **)import, table, row) : kiln_db_import_row(import, table, row);"),
    ("records that a person trusts do not count", "db/import.c", ": counts || of_project             ? KILN_DB_TRUSTED", ": false ? KILN_DB_TRUSTED"),
    ("records of others count", "db/import.c", ": counts || of_project             ? KILN_DB_TRUSTED", ": true ? KILN_DB_TRUSTED"),
    ("signatures are not checked", "db/import.c", "kiln_sign_supported() && !kiln_record_is_signed(&import->checkers, record))", "false)"),
    ("a record that came first keeps its place", "db/sqlite.c", 'kiln_status st = exec(db, sql.data, "running a migration");',
     'kiln_strbuf_text(&sql, "; DROP TRIGGER IF EXISTS record_gives_way"); kiln_status st = exec(db, sql.data, "running a migration");'),
    ("a hint supersedes what was measured", "db/query.c", 'append_counts("later", filter->trusting, sql);', 'kiln_strbuf_text(sql, "1 = 1");'),
    ("tombstones of untrusted signers are applied", "db/import.c", "if (!kiln_db_trust_counts(trust)) {", "if (false) {"),
    ("no acknowledgement", "tuner/pipeline.c", "if (trial->from_board)", "if (false)"),
]

def main():
    build = building.Build(sys.argv[1], sys.argv[2])
    seeds = sys.argv[3] if len(sys.argv) > 3 else "200"
    mutants = [row for row in MUTANTS if len(sys.argv) < 5 or sys.argv[4] in row[0] + row[1]]
    simulator = building.Program("tests/sim/kiln-sim", "simulator", ["--stop", seeds], str(build.build), {})
    build.link([simulator])
    place = pathlib.Path(build.scratch.name)
    survived = 0
    for number, (name, file, text, replacement) in enumerate(mutants, 1):
        content = (build.source / file).read_text()
        pattern = r"\s+".join(re.escape(word) for word in text.split())
        count = len(re.findall(pattern, content))
        if count != 1:
            sys.exit(f"mutants: '{name}': its text is in {file} {count} times, not once")
        changed = build.object(file, re.sub(pattern, lambda match: replacement, content).encode(), place)
        if not changed:
            sys.exit(f"mutants: '{name}' does not compile")
        build.link_with(simulator, file, changed, place / "mutant")
        how, _ = build.run(simulator, place / "mutant", limit_s=60)
        survived += how is None
        print(f"ok {number} - {name} # {how.split(':')[0]}" if how else f"not ok {number} - {name}", flush=True)
    print(f"1..{len(mutants)}")
    sys.exit(1 if survived else 0)


main()
