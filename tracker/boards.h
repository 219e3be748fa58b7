/* Boards: who is here, what each is and offers, and what jobs require of them. */
#ifndef KILN_TRACKER_BOARDS_H
#define KILN_TRACKER_BOARDS_H

#include "base/figures.h"
#include "base/target.h"
#include "base/thread_work.h"
#include "tracker/peers.h"

#define KILN_TRACKER_SLOTS_MAX 16u
#define KILN_TRACKER_ARENA_BYTES ((size_t)1 << 10) /* first chunk of a board, request or job */

/* What jobs and requests require of a device. Those that require the same share one entry, and each
 * device remembers of each whether it meets that. */
typedef struct kiln_tracker_requirement {
    uint32_t number; /* its place in kiln_tracker_boards.requirements */
    uint32_t users;  /* jobs and requests */
    kiln_arena arena;
    char *text; /* of all that follows: its identity */
    kiln_str key;
    const kiln_msg_label *label;
    uint32_t label_count;
    kiln_target target;
    bool exclusive;
    uint32_t devices, slots; /* that fit and may be leased now, free or not */
} kiln_tracker_requirement;

/* What happens to boards, and its name for people. */
#define KILN_TRACKER_PAST_MAX 8u /* events of a board that are remembered */
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
    X(IMPOSTOR, "impostor")
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

/* A device that is kept free for a request until all of its slots can be given. Written by queue.c,
 * too. */
typedef struct kiln_tracker_reservation {
    struct kiln_tracker_device *device; /* NULL: none is */
    struct kiln_tracker_request *request;
} kiln_tracker_reservation;

/* A target of a board: what requests are granted slots of. Each has its own slots and leases, so
 * that a CPU and a GPU of one board are measured on at once. */
typedef struct kiln_tracker_device {
    struct kiln_tracker_board *board;
    kiln_msg_board_target *reported; /* as its board says, and `busy`; in the board's arena */
    kiln_target target;
    uint32_t first_slot; /* its reported->slots slots of the board begin here; reported->busy: of
                            these, under lease, as of the last refresh */
    bool offered;        /* it is in kiln_tracker_boards.offered */
    uint32_t idle_at;    /* its place in kiln_tracker_boards.idle + 1; 0: not there */
    kiln_tracker_reservation *reserved; /* gets all slots when the last one is free; NULL: nobody */
    KILN_VEC(uint8_t) fits;             /* by requirement: unknown, yes, no */
} kiln_tracker_device;

/* An order that waits for the disk, and its giver for that. Written by board_service.c. */
typedef struct kiln_tracker_order {
    uint64_t persist; /* 0: none */
    uint64_t peer;
    uint32_t stream;
} kiln_tracker_order;

/* A board that this tracker or one before it saw. Written by board_link.c and board_service.c, too.
 */
typedef struct kiln_tracker_board {
    uint64_t number; /* grows from board to board, as they stand in kiln_tracker_boards.all */
    kiln_tracker_text node, boot;
    kiln_arena arena; /* of `up` and what devices point to; renewed by each BOARD_UP */
    kiln_msg_board_up up;
    kiln_tracker_device *device; /* [device_count] its targets; on the heap, renewed with `up` */
    uint32_t device_count;
    bool known;                                        /* `up` and the devices hold */
    char proven[sizeof "board/" + KILN_MESSAGES_TEXT]; /* key that its node is that of, so that
                                                          nobody else may have its name; "": none */
    kiln_tracker_peer *peer;                           /* NULL: lost */
    uint64_t lost_ns;                                  /* when peer is NULL */
    bool lost_busy;                                    /* it was lost while a trial of ours ran */
    bool sick, leaving;
    kiln_board_service service;
    char text[KILN_MESSAGES_NAME + 1]; /* why it is sick or out of service */
    uint64_t probation_ns;             /* quarantined by us until then; 0: by a person, or not */
    uint64_t results, ok, faults;
    uint32_t fault_run;
    uint64_t kept_results; /* `results` as of the last row */
    double noise, drift;
    double trial_ns;  /* how long a trial takes, lately; 0: unknown */
    kiln_msg_env env; /* last reading; no views but `governor`, which is left out */
    uint64_t slot[KILN_TRACKER_SLOTS_MAX]; /* lease, 0: free */
    uint32_t busy;                         /* slots that are not free, of all targets */
    uint32_t lacking; /* fences that the tracker requires and its BOARD_UP did not tell of */
    bool available; /* here, well, in service: its devices count in the requirements that they meet
                     */
    kiln_tracker_past past[KILN_TRACKER_PAST_MAX]; /* oldest first */
    uint32_t past_count;
    bool unkept;      /* it is in kiln_tracker_boards.unkept */
    uint64_t changed; /* kiln_tracker_effects.change when its row last did */
    bool forgotten;   /* by `order`: it goes when that is on disk, unless it came back */
    kiln_tracker_order order;
} kiln_tracker_board;

/* What the first board of a target had measured of its processor. */
typedef struct kiln_tracker_figures {
    char target[KILN_TRACKER_ROW_ID_MAX + 1]; /* without cores, threads and emulation */
    char bytes[KILN_FIGURES_BYTES_MAX];
    uint32_t size;
} kiln_tracker_figures;
#define KILN_TRACKER_FIGURES_MAX 1024u /* targets; of later ones nothing is kept */

typedef struct kiln_tracker_boards {
    KILN_VEC(kiln_tracker_board *) all;
    kiln_map of_node;
    kiln_map of_name;                        /* of the boards that share a name, one */
    KILN_VEC(kiln_tracker_device *) idle;    /* available, with a free slot that nobody reserved */
    KILN_VEC(kiln_tracker_device *) offered; /* something got free there: requests are looked at */
    KILN_VEC(kiln_tracker_board *) unkept;   /* with events that are not on disk */
    KILN_VEC(kiln_tracker_requirement *) requirements; /* NULL: a free place */
    kiln_map requirement_of_text;
    KILN_VEC(kiln_tracker_figures) figures;
    uint32_t fences;         /* a bit per kiln_fence that boards must have */
    uint64_t forget_lost_ns; /* boards that are lost for so long; 0: never */
} kiln_tracker_boards;

void kiln_tracker_boards_init(kiln_tracker *t);
/* ---- Slots ---- */
/* Whether a slot belongs to the device of another one of the board. */
bool kiln_tracker_board_shares_device(const kiln_tracker_board *board, uint32_t slot,
                                      uint32_t other);
/* The lease takes the slot, or all slots of its device; it leaves those that it has. */
void kiln_tracker_board_hold(kiln_tracker_board *board, uint64_t lease, uint32_t slot, bool whole);
void kiln_tracker_board_release(kiln_tracker_board *board, uint64_t lease);
/* How long trials take on the board, from a lease that held it so long. */
void kiln_tracker_board_learn_trial_time(kiln_tracker_board *board, uint64_t held_ns,
                                         uint32_t trials);
/* Keeps the device free for the request; or for nobody any more. */
void kiln_tracker_device_reserve(kiln_tracker_device *device,
                                 kiln_tracker_reservation *reservation);
void kiln_tracker_device_unreserve(kiln_tracker_device *device);
/* The next device at which something got free; NULL: that was all. */
kiln_tracker_device *kiln_tracker_boards_take_offered(kiln_tracker *t);
/* ---- What it is ---- */
/* The board that a peer would be taken for, if it were let in under this name: one whose node it
 * has without its key; one whose node is that name; or one that has the name already. Boards
 * without keys are all the tracker's user's own, and may share a name. NULL: none. */
kiln_tracker_board *kiln_tracker_board_taken_for(kiln_tracker *t, const kiln_tracker_peer *peer,
                                                 kiln_str name);
/* Takes what BOARD_UP says for what the board is; it is not available now. `has_key`: its name is
 * bound to its key. INVALID_ARGUMENT: then nothing is known of it. */
KILN_MUST_USE kiln_status kiln_tracker_board_describe(kiln_tracker *t, kiln_tracker_board *board,
                                                      const kiln_message *message, bool has_key);

/* boards.c */
kiln_tracker_board *kiln_tracker_board_find(kiln_tracker *t, kiln_str node);
/* By node, or by key when only one board has it; NULL. */
kiln_tracker_board *kiln_tracker_board_named(kiln_tracker *t, kiln_str name);
/* Makes an empty entry when there is none; NULL when there are too many. */
kiln_tracker_board *kiln_tracker_board_get(kiln_tracker *t, kiln_str node);
/* Forgets boards that are lost for too long (kiln_tracker_forget_boards_after). */
void kiln_tracker_boards_tick(kiln_tracker *t);
/* An order to forget a board that is lost: returns the PERSIST that takes it from the disk; when
 * that is done kiln_tracker_board_forgotten takes it from memory, unless it came back or the disk
 * `failed`. */
uint64_t kiln_tracker_board_forget(kiln_tracker *t, kiln_tracker_board *board);
void kiln_tracker_board_forgotten(kiln_tracker *t, kiln_tracker_board *board, bool failed);
/* After any change of what a board is, does or holds: counts it among those that may be leased, and
 * offers its free slots. */
void kiln_tracker_board_refresh(kiln_tracker *t, kiln_tracker_board *board);
/* The device that a slot of the board belongs to; NULL: none that is known. */
kiln_tracker_device *kiln_tracker_board_device(const kiln_tracker_board *board, uint32_t slot);
/* Slots of all its targets. */
uint32_t kiln_tracker_board_slots(const kiln_tracker_board *board);
KILN_MUST_USE kiln_status kiln_tracker_board_restore(kiln_tracker *t, const kiln_tracker_row *row);
void kiln_tracker_boards_free(kiln_tracker *t);
/* Has the board's row written, and returns the number of that. */
uint64_t kiln_tracker_board_persist(kiln_tracker *t, kiln_tracker_board *board);
/* Writes boards with new events: some of them, in each tick. */
void kiln_tracker_boards_write_events(kiln_tracker *t);
/* Idle boards are offered again: somebody may have what was kept from them. */
void kiln_tracker_offer_idle(kiln_tracker *t);

/* requirements.c */
/* The entry for these wishes, with one more user. */
KILN_MUST_USE kiln_status kiln_tracker_requirement_get(kiln_tracker *t, kiln_str target,
                                                       kiln_str key, const kiln_msg_label *label,
                                                       uint32_t label_count, bool exclusive,
                                                       kiln_tracker_requirement **out_required);
void kiln_tracker_requirement_unref(kiln_tracker *t, kiln_tracker_requirement *required);
/* Whether the device, when its board is available, is what is wanted. */
bool kiln_tracker_requirement_fits(kiln_tracker_requirement *required, kiln_tracker_device *device);
/* Whether nothing else may be measured on the device at the same time. */
bool kiln_tracker_requirement_is_whole(const kiln_tracker_requirement *required,
                                       const kiln_tracker_device *device);
/* The board becomes available with all its devices, or stops to be. */
void kiln_tracker_requirements_count(kiln_tracker *t, kiln_tracker_board *board, bool available);
void kiln_tracker_requirements_free(kiln_tracker *t);

/* board_history.c */
/* Remembers it; on disk soon, or with the next row of the board. */
void kiln_tracker_board_happened(kiln_tracker *t, kiln_tracker_board *board,
                                 kiln_tracker_board_event what, const char *text);
/* How long it is lost, also over restarts of the tracker. Only of boards without a peer. */
uint64_t kiln_tracker_history_lost_ns(const kiln_tracker *t, const kiln_tracker_board *board);
/* The board is written, or goes away. */
void kiln_tracker_history_forget(kiln_tracker *t, kiln_tracker_board *board);
/* `board->past_count` events, oldest first; views of the board. */
void kiln_tracker_history_list(const kiln_tracker_board *board,
                               kiln_msg_board_event out_event[KILN_TRACKER_PAST_MAX]);
void kiln_tracker_history_restore(kiln_tracker_board *board, const kiln_msg_kept_board *kept);

/* board_figures.c */
/* Keeps what the board measured, where nothing is kept of its target yet or a person asked it to
 * measure anew. What cannot be read is not kept: the board's other words count all the same. */
void kiln_tracker_figures_hear(kiln_tracker *t, const kiln_tracker_board *board);
/* Figures of the target of the board's processor, as they are sent; empty: none are kept. */
kiln_str kiln_tracker_figures_of(const kiln_tracker *t, const kiln_tracker_board *board);
kiln_status kiln_tracker_figures_restore(kiln_tracker *t, const kiln_tracker_row *row);
/* Invariants (kiln_tracker_check). */
void kiln_tracker_boards_check(const kiln_tracker *t);

#endif
