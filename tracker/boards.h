/* Boards: their devices and slots, whether they may be leased, and what jobs require of them. */
#ifndef KILN_TRACKER_BOARDS_H
#define KILN_TRACKER_BOARDS_H

#include "base/figures.h"
#include "base/target.h"
#include "base/thread_work.h"
#include "tracker/peers.h"

#define KILN_TRACKER_SLOTS_MAX 16u
#define KILN_TRACKER_ARENA_BYTES ((size_t)1 << 10) /* first chunk of a board, request or job */

/* What jobs and requests require of a device. Equal requirements share one entry. Each device
 * remembers for each entry whether it meets it. */
typedef struct kiln_tracker_requirement {
    uint32_t number; /* its place in kiln_tracker_boards.requirements */
    uint32_t users;  /* jobs and requests */
    kiln_arena arena;
    char *text; /* all that follows, as text: its identity */
    kiln_str key;
    const kiln_msg_label *label;
    uint32_t label_count;
    kiln_target target;
    bool exclusive;
    uint32_t devices, slots; /* that meet it and are available, free or not */
} kiln_tracker_requirement;

/* Events of boards, and their names for people. */
#define KILN_TRACKER_PAST_MAX 8u /* events remembered of each board */
#define KILN_TRACKER_PASTS(X)     \
    X(CAME, "came")               \
    X(LOST, "lost")               \
    X(GOES, "goes")               \
    X(SICK, "sick")               \
    X(WELL, "well")               \
    X(FAULTY, "fault")            \
    X(DRAINED, "drained")         \
    X(QUARANTINED, "quarantined") \
    X(RELEASED, "released")       \
    X(UNFENCED, "unfenced")       \
    X(IMPOSTOR, "impostor")       \
    X(UPGRADE, "upgrade")         \
    X(RESERVED, "reserved")       \
    X(RETURNED, "returned")       \
    X(MAINTENANCE, "maintenance")
typedef enum kiln_tracker_board_event {
#define X(NAME, name) KILN_TRACKER_PAST_##NAME,
    KILN_TRACKER_PASTS(X)
#undef X
} kiln_tracker_board_event;
typedef struct kiln_tracker_past {
    uint64_t wall_ms;
    kiln_tracker_board_event what;
    char text[96];
} kiln_tracker_past;

/* A device that is reserved for a request until all of its slots are free. Written by queue.c,
 * too. */
typedef struct kiln_tracker_reservation {
    struct kiln_tracker_device *device; /* NULL: none */
    struct kiln_tracker_request *request;
} kiln_tracker_reservation;

/* A target of a board, with slots that are leased. Each device has its own slots, so that a CPU and
 * a GPU of one board can be used at the same time. */
typedef struct kiln_tracker_device {
    struct kiln_tracker_board *board;
    kiln_msg_board_target *reported; /* as its board reported, and `busy`; in the board's arena */
    kiln_target target;
    uint32_t first_slot; /* the first of its reported->slots slots of the board; reported->busy: of
                            these, leased ones as of the last refresh */
    bool offered;        /* listed in kiln_tracker_boards.offered */
    uint32_t idle_at;    /* its place in kiln_tracker_boards.idle, plus 1; 0: not listed */
    kiln_tracker_reservation
        *reserved;          /* whose request gets all slots when the last one is free; NULL: none */
    KILN_VEC(uint8_t) fits; /* by requirement: unknown, yes, no */
} kiln_tracker_device;

/* An order that is not on disk yet, and where to send the answer. Written by board_service.c. */
typedef struct kiln_tracker_order {
    uint64_t persist; /* 0: none */
    uint64_t peer;
    uint32_t stream;
} kiln_tracker_order;

/* A board that a tracker has seen. Written by board_link.c, board_service.c and upgrades.c, too. */
typedef struct kiln_tracker_board {
    uint64_t number; /* ascending in kiln_tracker_boards.all */
    kiln_tracker_text node, boot;
    kiln_arena arena; /* of `up` and the devices; reset by each BOARD_UP */
    kiln_msg_board_up up;
    kiln_tracker_device *device; /* [device_count] its targets; on the heap, made anew with `up` */
    uint32_t device_count;
    bool known;                                        /* `up` and the devices are valid */
    char proven[sizeof "board/" + KILN_MESSAGES_TEXT]; /* the key that proves its node, so that no
                                                          other board may have its name; "": none */
    kiln_tracker_peer *peer;                           /* NULL: lost */
    uint64_t lost_ns;                                  /* when peer is NULL */
    bool lost_busy;                                    /* it was lost while a trial ran */
    bool sick, leaving;
    bool upgrading;    /* it drains or restarts for an upgrade of the fleet */
    char upgrade[192]; /* its part in the last upgrade, for people */
    kiln_board_service service;
    char text[KILN_MESSAGES_NAME + 1]; /* why it is sick or out of service */
    uint64_t probation_ns; /* end of a quarantine by the tracker; 0: there is none, or a person
                              ordered it */
    uint64_t results, ok, faults;
    uint32_t fault_run;
    uint64_t kept_results; /* `results` as of the last row */
    double noise, drift;
    double trial_ns;                       /* recent duration of a trial; 0: unknown */
    kiln_msg_env env;                      /* last reading, without `governor`, the only view */
    uint64_t slot[KILN_TRACKER_SLOTS_MAX]; /* lease, 0: free */
    uint32_t busy;                         /* leased slots of all devices */
    uint32_t lacking; /* fences that the tracker requires and its BOARD_UP lacks */
    bool available;   /* connected, well and in service: requirements count its devices, also
                         while it is upgrading and gets no lease */
    kiln_tracker_past past[KILN_TRACKER_PAST_MAX]; /* oldest first */
    uint32_t past_count;
    bool unkept;      /* listed in kiln_tracker_boards.unkept */
    uint64_t changed; /* kiln_tracker_effects.change of the last change of its row */
    bool forgotten;   /* `order` removes it when that is on disk, unless it has reconnected */
    kiln_tracker_order order;
} kiln_tracker_board;

/* Figures of a processor, as the first board of its target measured them. */
typedef struct kiln_tracker_figures {
    char target[KILN_TRACKER_ROW_ID_MAX + 1]; /* without cores, threads and emulation */
    char bytes[KILN_FIGURES_BYTES_MAX];
    uint32_t size;
} kiln_tracker_figures;
#define KILN_TRACKER_FIGURES_MAX 1024u /* targets; figures of further ones are not kept */

typedef struct kiln_tracker_boards {
    KILN_VEC(kiln_tracker_board *) all;
    kiln_map of_node;
    kiln_map of_name;                     /* one of the boards that share a name */
    KILN_VEC(kiln_tracker_device *) idle; /* available, with a free slot, not reserved */
    KILN_VEC(kiln_tracker_device *)
    offered; /* a slot became free: requests are considered at the end of the step */
    KILN_VEC(kiln_tracker_board *) unkept;             /* with events that are not on disk yet */
    KILN_VEC(kiln_tracker_requirement *) requirements; /* NULL: a free place */
    kiln_map requirement_of_text;
    KILN_VEC(kiln_tracker_figures) figures;
    kiln_digest release[KILN_MESSAGES_RELEASES]; /* archives of the last upgrade, which boards may
                                                    get */
    uint32_t release_count;
    uint32_t fences;         /* a bit per kiln_fence that boards must have */
    uint64_t forget_lost_ns; /* boards that are lost this long are forgotten; 0: never */
    uint64_t removed;        /* how many boards have been */
} kiln_tracker_boards;

void kiln_tracker_boards_init(kiln_tracker *t);
/* ---- Slots ---- */
/* Whether two slots of the board belong to the same device. */
bool kiln_tracker_board_shares_device(const kiln_tracker_board *board, uint32_t slot,
                                      uint32_t other);
/* Gives the lease the slot, or all slots of its device; takes all slots from the lease. */
void kiln_tracker_board_hold(kiln_tracker_board *board, uint64_t lease, uint32_t slot, bool whole);
void kiln_tracker_board_release(kiln_tracker_board *board, uint64_t lease);
/* Learns how long a trial takes from a lease that was held for `held_ns`. */
void kiln_tracker_board_learn_trial_time(kiln_tracker_board *board, uint64_t held_ns,
                                         uint32_t trials);
/* Reserves the device for the request; ends the reservation. */
void kiln_tracker_device_reserve(kiln_tracker_device *device,
                                 kiln_tracker_reservation *reservation);
void kiln_tracker_device_unreserve(kiln_tracker_device *device);
/* Takes the next offered device; NULL: there is none. */
kiln_tracker_device *kiln_tracker_boards_take_offered(kiln_tracker *t);
/* ---- What it is ---- */
/* The other board that a peer claims to be if it uses this name: a board with the peer's node and a
 * key that the peer lacks, a board whose node is that name, or a board with that name. Boards
 * without keys belong to the tracker's user and may share a name. NULL: there is none. */
kiln_tracker_board *kiln_tracker_board_taken_for(kiln_tracker *t, const kiln_tracker_peer *peer,
                                                 kiln_str name);
/* Replaces the description of the board, which is not available now, by that of BOARD_UP.
 * `has_key`: its name is bound to its key. INVALID_ARGUMENT: the board is then without a
 * description. */
KILN_MUST_USE kiln_status kiln_tracker_board_describe(kiln_tracker *t, kiln_tracker_board *board,
                                                      const kiln_message *message, bool has_key);

/* boards.c */
kiln_tracker_board *kiln_tracker_board_find(kiln_tracker *t, kiln_str node);
/* By node, or by name where only one board has it; NULL. */
kiln_tracker_board *kiln_tracker_board_named(kiln_tracker *t, kiln_str name);
/* Adds an empty entry when there is none; NULL: there are too many boards. */
kiln_tracker_board *kiln_tracker_board_get(kiln_tracker *t, kiln_str node);
/* Forgets boards that are lost for too long (kiln_tracker_forget_boards_after). */
void kiln_tracker_boards_tick(kiln_tracker *t);
/* Begins to forget a lost board: returns the number of the PERSIST that removes its row. When that
 * is done, kiln_tracker_board_forgotten removes the board, unless it has reconnected or the PERSIST
 * `failed`. */
uint64_t kiln_tracker_board_forget(kiln_tracker *t, kiln_tracker_board *board);
void kiln_tracker_board_forgotten(kiln_tracker *t, kiln_tracker_board *board, bool failed);
/* Called after each change of a board: updates whether it is available, offers its free slots. */
void kiln_tracker_board_refresh(kiln_tracker *t, kiln_tracker_board *board);
/* The device of a slot of the board; NULL: the slot belongs to no known device. */
kiln_tracker_device *kiln_tracker_board_device(const kiln_tracker_board *board, uint32_t slot);
/* Slots of all its devices. */
uint32_t kiln_tracker_board_slots(const kiln_tracker_board *board);
KILN_MUST_USE kiln_status kiln_tracker_board_restore(kiln_tracker *t, const kiln_tracker_row *row);
void kiln_tracker_boards_free(kiln_tracker *t);
/* Writes the board's row; returns the number of the PERSIST. */
uint64_t kiln_tracker_board_persist(kiln_tracker *t, kiln_tracker_board *board);
/* Writes some boards with new events; called in each tick. */
void kiln_tracker_boards_write_events(kiln_tracker *t);
/* Offers all idle devices again, as after a quota was raised. */
void kiln_tracker_offer_idle(kiln_tracker *t);

/* Lets boards get these blobs instead of those of the last call. */
void kiln_tracker_boards_offer_releases(kiln_tracker *t, const kiln_digest *release,
                                        uint32_t count);
bool kiln_tracker_boards_is_release(const kiln_tracker *t, const kiln_digest *digest);

/* requirements.c */
/* The entry for these requirements, with one more user. */
KILN_MUST_USE kiln_status kiln_tracker_requirement_get(kiln_tracker *t, kiln_str target,
                                                       kiln_str key, const kiln_msg_label *label,
                                                       uint32_t label_count, bool exclusive,
                                                       kiln_tracker_requirement **out_required);
void kiln_tracker_requirement_unref(kiln_tracker *t, kiln_tracker_requirement *required);
/* Whether the board has all of these labels. */
bool kiln_tracker_board_has_labels(const kiln_tracker_board *board, const kiln_msg_label *label,
                                   uint32_t count);
/* Whether the device meets the requirement, available or not. */
bool kiln_tracker_requirement_fits(kiln_tracker_requirement *required, kiln_tracker_device *device);
/* Whether the requirement takes all slots of the device. */
bool kiln_tracker_requirement_is_whole(const kiln_tracker_requirement *required,
                                       const kiln_tracker_device *device);
/* Counts or discounts the devices of a board that becomes available or ceases to be. */
void kiln_tracker_requirements_count(kiln_tracker *t, kiln_tracker_board *board, bool available);
void kiln_tracker_requirements_free(kiln_tracker *t);

/* board_history.c */
/* Adds an event; it is written with the next tick, or the next row of the board. */
void kiln_tracker_board_happened(kiln_tracker *t, kiln_tracker_board *board,
                                 kiln_tracker_board_event what, const char *text);
/* How long a board without a peer is lost, also over restarts of the tracker. */
uint64_t kiln_tracker_history_lost_ns(const kiln_tracker *t, const kiln_tracker_board *board);
/* The board's events were written, or the board is removed. */
void kiln_tracker_history_forget(kiln_tracker *t, kiln_tracker_board *board);
/* `board->past_count` events, oldest first; views of the board. */
void kiln_tracker_history_list(const kiln_tracker_board *board,
                               kiln_msg_board_event out_event[KILN_TRACKER_PAST_MAX]);
void kiln_tracker_history_restore(kiln_tracker_board *board, const kiln_msg_kept_board *kept);

/* board_figures.c */
/* Keeps the figures that the board measured when none are kept for its target, or a person asked it
 * to measure anew. Figures that do not decode are ignored. */
void kiln_tracker_figures_hear(kiln_tracker *t, const kiln_tracker_board *board);
/* The encoded figures kept for the board's processor; empty: there are none. */
kiln_str kiln_tracker_figures_of(const kiln_tracker *t, const kiln_tracker_board *board);
kiln_status kiln_tracker_figures_restore(kiln_tracker *t, const kiln_tracker_row *row);
/* Invariants (kiln_tracker_check). */
void kiln_tracker_boards_check(const kiln_tracker *t);

#endif
