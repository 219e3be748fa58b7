/* The state of a tracker, divided between owners. Included only by files of tracker/ and by tests.
 *
 * Each owner has a header. A file calls what its own header declares, or a header that this one
 * includes, down to effects.h, so that there are no circles. It writes fields of structs that its
 * own header declares, and of structs whose comment says "Written by" that file; all files may read
 * (tests/check/check_owners.py). */
#ifndef KILN_TRACKER_STATE_H
#define KILN_TRACKER_STATE_H

#include <string.h>

#include "tracker/access.h"
#include "tracker/availability.h"
#include "tracker/blobs.h"
#include "tracker/board_link.h"
#include "tracker/board_requests.h"
#include "tracker/board_service.h"
#include "tracker/boards.h"
#include "tracker/calendar.h"
#include "tracker/calendar_orders.h"
#include "tracker/effects.h"
#include "tracker/job_assign.h"
#include "tracker/job_life.h"
#include "tracker/jobs.h"
#include "tracker/leases.h"
#include "tracker/peers.h"
#include "tracker/people.h"
#include "tracker/project_orders.h"
#include "tracker/projects.h"
#include "tracker/query.h"
#include "tracker/queue.h"
#include "tracker/quotas.h"
#include "tracker/record_questions.h"
#include "tracker/relay.h"
#include "tracker/rows.h"
#include "tracker/scheduler.h"
#include "tracker/sign_in.h"
#include "tracker/upgrade_orders.h"
#include "tracker/upgrades.h"
#include "tracker/watch.h"

struct kiln_tracker {
    kiln_tracker_effects effects;
    kiln_tracker_peers peers;
    kiln_tracker_people people;
    kiln_tracker_projects projects;
    kiln_tracker_boards boards;
    kiln_tracker_jobs jobs;
    kiln_tracker_queue queue;
    kiln_tracker_leases leases;
    kiln_tracker_access access;
    kiln_tracker_blobs blobs;
    kiln_tracker_board_service board_service;
    kiln_tracker_relay relay;
    kiln_tracker_cancels cancels;
    kiln_tracker_assign assign;
    kiln_tracker_project_orders project_orders;
    kiln_tracker_watchers watchers;
    kiln_tracker_sign_ins sign_ins;
    kiln_tracker_calendar calendar;
    kiln_tracker_calendar_orders calendar_orders;
    kiln_tracker_board_requests board_requests;
    kiln_tracker_record_questions record_questions;
    kiln_tracker_upgrades upgrades;
    kiln_tracker_upgrade_orders upgrade_orders;
};

#endif
