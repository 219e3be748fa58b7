/* What a tracker holds, shared by the files of tracker/ and nobody else. */
#ifndef KILN_TRACKER_STATE_H
#define KILN_TRACKER_STATE_H

#include <string.h>

#include "base/map.h"
#include "base/sign/sign.h"
#include "base/target.h"
#include "base/thread_work.h"
#include "tracker/rights.h"
#include "tracker/tracker.h"

#define KILN_TRACKER_SIGNERS (KILN_MESSAGES_SIGNERS / KILN_MESSAGES_SIGNER) /* of one job */

#define KILN_TRACKER_TICK_NS UINT64_C(250000000)
#define KILN_TRACKER_SLOTS_MAX 16u
#define KILN_TRACKER_WAIT_BUCKETS 9u
#define KILN_TRACKER_WATCHERS_MAX 256u
#define KILN_TRACKER_WATCHERS_OF_PERSON_MAX 64u   /* of these */
#define KILN_TRACKER_WATCHERS_OF_PROJECT_MAX 128u /* of single jobs */
#define KILN_TRACKER_ASKERS_MAX 256u              /* pings, and readers of logs */
#define KILN_TRACKER_ASKERS_OF_PERSON_MAX 64u
#define KILN_TRACKER_JOBS_OF_PERSON_MAX 1024u /* open ones */
#define KILN_TRACKER_JOBS_OF_PROJECT_MAX 3072u
#define KILN_TRACKER_REQUESTS_OF_PROJECT_MAX 3072u /* in the queue */
#define KILN_TRACKER_PROJECTS_MAX 4096u
#define KILN_TRACKER_PUTS_MAX 65536u /* blobs of which it is known who put them */
#define KILN_TRACKER_SENT_BLOBS 8u   /* outputs that a holder may still fetch */
#define KILN_TRACKER_PUT_BYTES_A_DAY ((uint64_t)8 << 30) /* of a person: half of what is kept */
#define KILN_TRACKER_RATE_OF_PERSON 200.0 /* messages a second; PING and its like are none */
#define KILN_TRACKER_BURST_S 5.0          /* so much of a rate may come at once */
#define KILN_TRACKER_EPOCHS 1024u         /* lease numbers reserved at a time */
#define KILN_TRACKER_ARENA_BYTES ((size_t)1 << 10) /* first chunk of a board, request or job */

typedef char kiln_tracker_text[KILN_MESSAGES_TEXT + 1]; /* an identity, NUL-terminated */

/* Takes `item`, which is there, out of a vector of pointers; the rest keeps its order. */
#define kiln_tracker_remove(v, item)                                                             \
    do {                                                                                         \
        uint32_t at_ = 0;                                                                        \
        while ((v)->data[at_] != (item)) at_++;                                                  \
        memmove(&(v)->data[at_], &(v)->data[at_ + 1], (--(v)->count - at_) * sizeof *(v)->data); \
    } while (0)

/* A connection. */
typedef struct kiln_tracker_peer {
    uint64_t id;
    uint32_t index; /* in kiln_tracker.peer */
    kiln_peer_role role;
    kiln_tracker_text node, boot;
    kiln_tracker_text name;             /* for people */
    bool is_owner, is_admin, is_proven; /* as in kiln_tracker_who */
    bool has_key;                       /* its node is that of a key */
    kiln_tracker_text person;           /* empty: nobody that is known */
    struct kiln_tracker_person *known;  /* of people */
    uint32_t version;                   /* of the protocol, that both sides speak */
    char software[64];                  /* program and version, for people */
    uint64_t heard_ns;
    bool closing;                     /* CLOSE was emitted; nothing from it counts any more */
    struct kiln_tracker_board *board; /* of a board, after BOARD_UP */
    kiln_digest sent[KILN_TRACKER_SENT_BLOBS]; /* outputs of its trials, the newest ones */
    uint32_t sent_count;
    bool signs; /* of a tuner: it said whose signature its records carry: */
    kiln_sign_public signer;
    uint32_t jobs; /* of a tuner: those it has, as of the last look at all jobs */
} kiln_tracker_peer;

/* What requests want of a device. Requests that want the same share one entry, and each device
 * remembers of each whether it fits. */
typedef struct kiln_tracker_want {
    uint32_t number; /* its place in kiln_tracker.want */
    uint32_t users;  /* jobs and requests */
    kiln_arena arena;
    char *text; /* of all that follows: its identity */
    kiln_str key;
    const kiln_msg_label *label;
    uint32_t label_count;
    kiln_target target;
    bool exclusive;
    uint32_t devices, slots; /* that fit and may be leased now, free or not */
} kiln_tracker_want;

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

/* A target of a board: what requests are granted slots of. Each has its own slots and leases, so
 * that a CPU and a GPU of one board are measured on at once. */
typedef struct kiln_tracker_device {
    struct kiln_tracker_board *board;
    kiln_msg_board_target *said; /* as its board says, and `busy`; in the board's arena */
    kiln_target target;
    uint32_t first_slot; /* its said->slots slots of the board begin here; said->busy: of these,
                            under lease, as of the last refresh */
    bool offered;        /* it is in kiln_tracker.offered */
    uint32_t idle_at;    /* its place in kiln_tracker.idle + 1; 0: not there */
    struct kiln_tracker_request *reserved; /* gets all slots when the last one is free */
    KILN_VEC(uint8_t) fits;                /* by want: unknown, yes, no */
} kiln_tracker_device;

/* A board that this tracker or one before it saw. */
typedef struct kiln_tracker_board {
    uint64_t number; /* grows from board to board, as they stand in kiln_tracker.board */
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
    kiln_duty duty;
    char text[KILN_MESSAGES_NAME + 1]; /* why it is sick or off duty */
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
    bool available;   /* here, well, on duty: its devices count in the wants that they fit */
    kiln_tracker_past past[KILN_TRACKER_PAST_MAX]; /* oldest first */
    uint32_t past_count;
    bool unkept;      /* it is in kiln_tracker.unkept */
    uint64_t changed; /* kiln_tracker.change when its row last did */
    bool forgotten;   /* by `order`: it goes when that is on disk, unless it came back */
    uint64_t order;   /* PERSIST of an order, whose giver waits for it; 0: none */
    uint64_t order_peer;
    uint32_t order_stream;
} kiln_tracker_board;

/* Requests let through at a steady rate, and a burst of them. */
typedef struct kiln_tracker_bucket {
    double left;
    uint64_t filled_ns;
} kiln_tracker_bucket;

/* Somebody who proved a name; all those who did not are one. */
typedef struct kiln_tracker_person {
    kiln_tracker_text name;
    uint64_t first_ms, seen_ms; /* of the wall clock; 0: never */
    kiln_tracker_bucket requests;
    uint64_t put_day, put_bytes; /* blobs that it put on that day since 1970 */
    uint64_t blob_bytes;         /* of all blobs that it put and that are still here */
    uint64_t needed_bytes,
        needed_ns; /* of these what jobs and leases need, and when that was seen */
    bool is_over;  /* it may have more than it may: the next tick looks */
} kiln_tracker_person;

typedef struct kiln_tracker_member {
    kiln_tracker_text person, by;
    kiln_member role;
    bool native;
    uint64_t given_ms;
} kiln_tracker_member;

/* What the first board of a target had measured of its processor. */
typedef struct kiln_tracker_figures {
    char target[KILN_TRACKER_ROW_ID_MAX + 1]; /* without cores, threads and emulation */
    char bytes[KILN_FIGURES_BYTES_MAX];
    uint32_t size;
} kiln_tracker_figures;
#define KILN_TRACKER_FIGURES_MAX 1024u /* targets; of later ones nothing is kept */

/* A signer whose records count in a project's jobs. */
typedef struct kiln_tracker_trusted {
    kiln_sign_public half;
    char text[KILN_SIGN_PUBLIC_TEXT]; /* of `half` */
    char node[KILN_KEY_NAME_BYTES]; /* of whose key it is: it counts while that is in force; empty:
                                       of nobody in the tracker's list */
    kiln_tracker_text by;           /* who said so, and when */
    uint64_t given_ms;
} kiln_tracker_trusted;

/* Who pays: jobs with the same name of project. One that nobody made is there while it has jobs,
 * and on the day on which it had boards. */
typedef struct kiln_tracker_project {
    uint64_t number; /* grows from project to project, as they stand in kiln_tracker.project */
    char *name;
    bool is_made;
    char text[KILN_MESSAGES_NAME + 1]; /* what it is for */
    kiln_tracker_text by;              /* who made it, and when */
    uint64_t made_ms;
    uint64_t setting[KILN_SETTING_COUNT];
    KILN_VEC(kiln_tracker_member) member;
    KILN_VEC(kiln_tracker_trusted) trusted; /* at most KILN_MESSAGES_TRUSTED */
    uint32_t slots, queued;                 /* held by its leases; requests that wait */
    uint64_t day;                           /* since 1970, of `day_ns` */
    double day_ns;                          /* time of slots on that day, up to `charged_ns` */
    uint64_t charged_ns;
    double kept_day_ns; /* as of its last row */
    bool is_used_up;    /* its time of the day, as of the last look */
    kiln_tracker_bucket requests;
    uint64_t refused; /* by its quotas */
    uint32_t jobs;    /* open ones */
    uint32_t weight;
    uint32_t held;   /* leases */
    double used;     /* time of slots over weight, on a scale that all projects share */
    double lease_ns; /* how long its leases last, lately */
    double kept;     /* `used` as of its last row */
    double running;  /* cost so far of the leases that it holds, as of the last look */
    bool is_kept;    /* it has a row */
    KILN_VEC(struct kiln_tracker_job *) waiting; /* its jobs with requests in the queue */
} kiln_tracker_project;

typedef struct kiln_tracker_request {
    kiln_arena arena;
    kiln_msg_lease_req want; /* as it came */
    kiln_tracker_want *fit;
    struct kiln_tracker_job *job;
    uint64_t order, since_ns;       /* of arrival */
    kiln_tracker_text tuner, node;  /* of the tuner: its run and itself */
    kiln_tracker_device *reserving; /* kept free for it; NULL: none */
    bool fresh;                     /* it is in kiln_tracker.fresh */
} kiln_tracker_request;

/* A trial that was sent under a lease. */
typedef struct kiln_tracker_sent {
    uint64_t hash;
    uint32_t attempt; /* last one that a result came of; 0: none */
} kiln_tracker_sent;

typedef struct kiln_tracker_lease {
    uint64_t lease, request;
    uint64_t persist;  /* > 0: the grant waits for this */
    uint64_t reserves; /* with it lease numbers up to this are on disk; 0: it was not needed */
    uint32_t index;    /* in kiln_tracker.lease */
    kiln_tracker_board *board;
    uint32_t slot, trials, ttl_ms;
    bool whole;                   /* it has all slots of its device */
    uint32_t counted;             /* slots that it counts as for its project */
    uint64_t hold_until_ns;       /* its project may not hold it longer; 0: no bound */
    kiln_tracker_text tuner;      /* boot: a lease belongs to one run of its holder */
    kiln_tracker_text node;       /* of that holder */
    struct kiln_tracker_job *job; /* NULL: unknown, after a restart */
    uint64_t granted_ns, expires_ns;
    uint64_t
        board_due_ns; /* after a restart of the tracker: the board must be back by then; 0: it is */
    bool restored;    /* trials may have been sent before this tracker began */
    bool unclaimed;   /* so far its holder has not spoken of it since then */
    KILN_VEC(kiln_tracker_sent) trial;
    KILN_VEC(kiln_digest) blob;       /* that the trials name: the board may have them */
    KILN_VEC(kiln_message) held_back; /* for its board, until that is back; in held_back_arena */
    kiln_arena held_back_arena;
} kiln_tracker_lease;

typedef struct kiln_tracker_job {
    uint64_t number; /* grows from job to job, as they stand in kiln_tracker.job */
    kiln_tracker_text id;
    kiln_tracker_text owner; /* the person that opened it; empty: nobody that was known */
    kiln_arena arena;        /* of spec and tasks */
    kiln_msg_job_spec spec;  /* `project` is never empty, `user` is the owner where there is one */
    kiln_tracker_want *want; /* while it is open */
    kiln_tracker_project *project; /* while it is open */
    kiln_job_state state;
    uint32_t leases;                          /* held for it */
    KILN_VEC(kiln_tracker_request *) request; /* in the queue, oldest first */
    uint64_t opened_ns, assigned_ns;
    kiln_tracker_text run;    /* which run of its name it is; empty: its name says so */
    kiln_tracker_text opener; /* boot of who opened it last; empty after a restart */
    kiln_tracker_text tuner;  /* node of who works on it, empty: nobody */
    kiln_sign_public signer[KILN_TRACKER_SIGNERS]; /* of all who worked on it, the last ones */
    uint32_t signer_count;
    uint64_t tuner_until_ns; /* that tuner must be back by then; 0: it is here */
    kiln_tracker_peer *client;
    uint32_t client_stream;   /* of JOB_OPEN, while its answer is due */
    uint64_t client_until_ns; /* its client must be back by then; 0: there is one, or none is needed
                               */
    bool abandoned;           /* it was stopped because its client did not come back */
    uint64_t unserved_ns;     /* since when tuner or board is missing; 0: served */
    uint64_t ending_ns;       /* since when the tuner was told to stop; 0: it was not */
    kiln_code ending_code;
    char *ending_text;      /* in arena */
    kiln_msg_job_done done; /* once ended; also holds the task states while it runs */
    uint32_t task_capacity;
    uint64_t blob_bytes; /* of its model and records, as far as it is known */
    uint64_t persist;    /* > 0: its opening or its end waits for this */
    uint64_t assigning;  /* > 0: its tuner hears of it when this is durable */
    uint64_t changed;    /* kiln_tracker.change when its row last did */
} kiln_tracker_job;

/* Somebody who is told what changes (watch.c). */
typedef struct kiln_tracker_watcher {
    kiln_tracker_peer *peer;
    uint32_t stream;
    kiln_topic topic;
    char id[KILN_MESSAGES_NAME + 1]; /* of the one board or job; empty: all */
    uint64_t seen;                   /* what changed up to here was sent */
    bool waits;                      /* for the reader to say that it has that */
    bool more;                       /* there was more than one page holds */
} kiln_tracker_watcher;

/* Somebody who wants to know whether boards are there (ask.c). */
typedef struct kiln_tracker_probe {
    kiln_tracker_peer *peer;
    uint32_t stream;
    uint64_t number;  /* what its PINGs carry */
    uint64_t sent_ns; /* when they went */
    uint32_t wait_ms;
    KILN_VEC(kiln_tracker_board *) waits; /* for their PONG; connected ones */
} kiln_tracker_probe;

/* Somebody who reads the log of a connected board (ask.c). */
typedef struct kiln_tracker_tail {
    kiln_tracker_peer *peer;
    uint32_t stream;
    uint64_t reader; /* what the board calls it */
    kiln_tracker_board *board;
} kiln_tracker_tail;

/* A blob that a person or a program put (put.c). */
typedef struct kiln_tracker_put {
    kiln_digest digest;
    uint64_t who; /* hash of its name */
    struct kiln_tracker_person
        *person;                    /* NULL: a program, or nobody that is known: it has no row */
    uint64_t size, put_ms, used_ms; /* of the wall clock; used: put again, or named by a job */
    bool changed;                   /* it is in kiln_tracker.put_changed */
    struct kiln_tracker_put *same;  /* the same blob, by somebody else */
    struct kiln_tracker_put *older, *newer; /* by use */
} kiln_tracker_put;
/* What a row may have to be written or removed for. */
typedef struct kiln_tracker_put_change {
    kiln_digest digest;
    struct kiln_tracker_person *person;
} kiln_tracker_put_change;

/* An order to cancel a job that waits for the disk. */
typedef struct kiln_tracker_cancel {
    uint64_t persist, peer;
    uint32_t stream;
    kiln_job_state state; /* of the job, then */
    kiln_tracker_text job;
} kiln_tracker_cancel;

/* An order about a project that waits for the disk. */
typedef struct kiln_tracker_project_change {
    uint64_t persist, peer;
    uint32_t stream;
    kiln_tracker_text project;
} kiln_tracker_project_change;

struct kiln_tracker {
    KILN_VEC(kiln_tracker_peer *) peer;
    KILN_VEC(kiln_tracker_peer *) tuner; /* those of `peer` that are one */
    kiln_map peer_of_id;                 /* 8 bytes of id -> pointer */
    kiln_map peer_of_node;   /* "ROLE/NODE" -> pointer: programs, not people, that are connected */
    kiln_map holder_of_boot; /* who may hold leases: tuners, and people for jobs of their own */
    KILN_VEC(kiln_tracker_board *) board;
    kiln_map board_of_node;
    kiln_map board_of_name;                  /* of the boards that share a name, one */
    KILN_VEC(kiln_tracker_device *) idle;    /* available, with a free slot that nobody reserved */
    KILN_VEC(kiln_tracker_device *) offered; /* something got free there: requests are looked at */
    KILN_VEC(kiln_tracker_board *) unkept;   /* with events that are not on disk */
    KILN_VEC(kiln_tracker_want *) want;      /* NULL: a free place */
    kiln_map want_of_text;
    KILN_VEC(kiln_tracker_project *) project;
    kiln_map project_of_name;
    KILN_VEC(kiln_tracker_person *) person;
    kiln_map person_of_name;
    KILN_VEC(kiln_tracker_figures) figures;
    KILN_VEC(kiln_tracker_project_change) project_change;
    kiln_tracker_find_key find_key; /* NULL: there is no list of keys */
    void *find_key_context;
    KILN_VEC(kiln_tracker_cancel) cancel;
    kiln_map put_of_digest;                    /* 32 bytes -> the first of kiln_tracker_put.same */
    kiln_tracker_put *put_oldest, *put_newest; /* by use */
    uint32_t put_count;
    KILN_VEC(kiln_tracker_put_change) put_changed;
    uint64_t blob_bytes_max; /* of a person; 0: no bound */
    uint32_t request_count;
    kiln_map request_of_key;                /* number, tuner's boot -> pointer */
    KILN_VEC(kiln_tracker_request *) fresh; /* not yet offered to the idle boards */
    KILN_VEC(kiln_tracker_lease *) lease;
    uint32_t unclaimed;               /* of these */
    kiln_map lease_of_number;         /* 8 bytes -> pointer */
    kiln_map lease_of_request;        /* number, tuner's boot -> pointer */
    kiln_map lease_of_persist;        /* 8 bytes -> pointer */
    KILN_VEC(kiln_tracker_job *) job; /* oldest first */
    kiln_map job_of_id;
    uint32_t jobs_open;
    uint32_t jobs_unkept;    /* how often jobs wait for the disk: `persist` and `assigning` */
    uint32_t orders;         /* of boards, that wait for the disk */
    uint64_t epoch;          /* last lease number given out */
    uint32_t fences;         /* a bit per kiln_fence that boards must have */
    uint64_t forget_lost_ns; /* boards that are lost for so long; 0: never */
    uint64_t epoch_durable;  /* up to here the disk says that they may have been */
    uint64_t persist;        /* last PERSIST */
    uint64_t last_order;     /* of a request */
    uint64_t last_row;       /* number of the newest board, job or project */
    KILN_VEC(kiln_tracker_watcher *) watcher;
    KILN_VEC(kiln_tracker_probe *) probe;
    KILN_VEC(kiln_tracker_tail *) tail;
    uint64_t asked;  /* last number of a probe or a reader */
    uint64_t change; /* grows with each change of a row; begins at the time of creation, so that
                        no number of a former run is taken for one of this */
    uint64_t first_change;
    double shared;   /* project.used of who got the last lease: where newcomers begin */
    double lease_ns; /* how long leases last, lately; 0: none ended yet */
    uint64_t next_tick_ns, ticked_ns; /* when it looks at all again, and when it last did */
    uint64_t shares_ns;               /* when shares are written again */
    uint64_t wall_offset_ns;          /* of the wall clock, from the time of steps */
    bool fleet_changed; /* tuners, or whether any board fits: jobs are looked at again */
    uint64_t grants, expired, results, stale_refused, rights_refused, quota_refused, quarantines,
        abandoned;
    uint64_t waits[KILN_TRACKER_WAIT_BUCKETS], waited_ns; /* of requests that were granted */
    /* Of the step under way. */
    uint64_t now_ns;
    kiln_tracker_actions *actions;
};

/* figures.c */
/* Keeps what the board measured, where nothing is kept of its target yet or a person asked it to
 * measure anew. What cannot be read is not kept: the board's other words count all the same. */
void kiln_tracker_figures_hear(kiln_tracker *t, const kiln_tracker_board *board);
/* Figures of the target of the board's processor, as they are sent; empty: none are kept. */
kiln_str kiln_tracker_figures_of(const kiln_tracker *t, const kiln_tracker_board *board);
kiln_status kiln_tracker_figures_restore(kiln_tracker *t, const kiln_tracker_row *row);

/* tracker.c */
/* Sends a deep copy of `message`; a NULL peer swallows it. */
void kiln_tracker_send(kiln_tracker *t, const kiln_tracker_peer *peer, const kiln_message *message);
void kiln_tracker_send_error(kiln_tracker *t, const kiln_tracker_peer *peer, uint32_t stream,
                             kiln_code code, kiln_str about, uint64_t lease, const char *format,
                             ...) KILN_PRINTF(7, 8);
/* Tells the peer why and has its connection closed. What it held is dropped when CLOSED comes. */
void kiln_tracker_drop(kiln_tracker *t, kiln_tracker_peer *peer, kiln_code code, const char *text);
/* Emits a PERSIST of `row` (copied) and returns its number. */
uint64_t kiln_tracker_persist(kiln_tracker *t, const kiln_tracker_row *row, uint32_t count);
/* The same for rows that nobody waits for, and whose loss costs little. */
void kiln_tracker_persist_later(kiln_tracker *t, const kiln_tracker_row *row, uint32_t count);
bool kiln_tracker_is_person(const kiln_tracker_peer *peer);
kiln_tracker_peer *kiln_tracker_peer_find(kiln_tracker *t, uint64_t id); /* NULL: gone */
/* Has the file of a blob removed. */
void kiln_tracker_drop_blob(kiln_tracker *t, const kiln_digest *digest);
/* Has it noted down; copied. */
void kiln_tracker_log(kiln_tracker *t, const kiln_tracker_note *note);
/* The connected holder of leases with this boot, tuner with this node; NULL. */
kiln_tracker_peer *kiln_tracker_holder_by_boot(kiln_tracker *t, const char *boot);
kiln_tracker_peer *kiln_tracker_tuner_by_node(kiln_tracker *t, const char *node);
void kiln_tracker_set_text(kiln_tracker_text out, kiln_str text);

/* device.c */
kiln_tracker_board *kiln_tracker_board_find(kiln_tracker *t, kiln_str node);
/* By node, or by key when only one board has it; NULL. */
kiln_tracker_board *kiln_tracker_board_named(kiln_tracker *t, kiln_str name);
/* Makes an empty entry when there is none; NULL when there are too many. */
kiln_tracker_board *kiln_tracker_board_get(kiln_tracker *t, kiln_str node);
/* Drops a board's peer that has another's node or `name` (empty: it has said none yet), and notes
 * it in the history of the other. False: it is none. */
bool kiln_tracker_board_refuses(kiln_tracker *t, kiln_tracker_peer *peer, kiln_str name);
void kiln_tracker_board_up(kiln_tracker *t, kiln_tracker_peer *peer, const kiln_message *message);
void kiln_tracker_board_state(kiln_tracker *t, kiln_tracker_peer *peer,
                              const kiln_message *message);
/* Forgets boards that are lost for too long (kiln_tracker_forget_boards_after). */
void kiln_tracker_boards_tick(kiln_tracker *t);
/* An order to forget a board that is lost: returns the PERSIST that takes it from the disk; when
 * that is done kiln_tracker_board_forgotten takes it from memory, unless it came back or the disk
 * `failed`. */
uint64_t kiln_tracker_board_forget(kiln_tracker *t, kiln_tracker_board *board);
void kiln_tracker_board_forgotten(kiln_tracker *t, kiln_tracker_board *board, bool failed);
void kiln_tracker_board_lost(kiln_tracker *t, kiln_tracker_board *board, const char *why);
/* After any change of what a board is, does or holds: counts it among those that may be leased, and
 * offers its free slots. */
void kiln_tracker_board_refresh(kiln_tracker *t, kiln_tracker_board *board);
/* The device that a slot of the board belongs to; NULL: none that is known. */
kiln_tracker_device *kiln_tracker_board_device(const kiln_tracker_board *board, uint32_t slot);
/* Slots of all its targets. */
uint32_t kiln_tracker_board_slots(const kiln_tracker_board *board);
void kiln_tracker_board_end_leases(kiln_tracker *t, kiln_tracker_board *board, const char *why);
KILN_MUST_USE kiln_status kiln_tracker_board_restore(kiln_tracker *t, const kiln_tracker_row *row);
void kiln_tracker_boards_free(kiln_tracker *t);

/* duty.c */
/* Has the board's row written, and returns the number of that. */
uint64_t kiln_tracker_board_keep(kiln_tracker *t, kiln_tracker_board *board);
void kiln_tracker_board_order(kiln_tracker *t, kiln_tracker_peer *client,
                              const kiln_message *message);
void kiln_tracker_order_persisted(kiln_tracker *t, uint64_t persist, const char *failure);
/* Counts what a result says about its board. */
void kiln_tracker_board_judge(kiln_tracker *t, kiln_tracker_board *board,
                              const kiln_msg_trial_result *result);
/* A fault of the board itself; after too many in a row it is quarantined. */
void kiln_tracker_board_fault(kiln_tracker *t, kiln_tracker_board *board, const char *why);
void kiln_tracker_duties_tick(kiln_tracker *t);

/* history.c */
/* Remembers it; on disk soon, or with the next row of the board. */
void kiln_tracker_board_happened(kiln_tracker *t, kiln_tracker_board *board,
                                 kiln_tracker_board_event what, const char *text);
void kiln_tracker_history_tick(kiln_tracker *t);
/* How long it is lost, also over restarts of the tracker. Only of boards without a peer. */
uint64_t kiln_tracker_history_lost_ns(const kiln_tracker *t, const kiln_tracker_board *board);
/* The board is written, or goes away. */
void kiln_tracker_history_forget(kiln_tracker *t, kiln_tracker_board *board);
/* `board->past_count` events, oldest first; views of the board. */
void kiln_tracker_history_list(const kiln_tracker_board *board,
                               kiln_msg_board_event out_event[KILN_TRACKER_PAST_MAX]);
void kiln_tracker_history_restore(kiln_tracker_board *board, const kiln_msg_kept_board *kept);

/* want.c */
/* The entry for these wishes, with one more user. */
KILN_MUST_USE kiln_status kiln_tracker_want_get(kiln_tracker *t, kiln_str target, kiln_str key,
                                                const kiln_msg_label *label, uint32_t label_count,
                                                bool exclusive, kiln_tracker_want **out_want);
void kiln_tracker_want_unref(kiln_tracker *t, kiln_tracker_want *want);
/* Whether the device, when its board is available, is what is wanted. */
bool kiln_tracker_want_fits(kiln_tracker_want *want, kiln_tracker_device *device);
/* Whether nothing else may be measured on the device at the same time. */
bool kiln_tracker_want_is_whole(const kiln_tracker_want *want, const kiln_tracker_device *device);
/* The board becomes available with all its devices, or stops to be. */
void kiln_tracker_wants_count(kiln_tracker *t, kiln_tracker_board *board, bool available);
/* One line for people: what fits and how long it may take, or what there is instead. Whether any
 * board that was ever seen fits. */
bool kiln_tracker_want_describe(kiln_tracker *t, kiln_tracker_want *want, kiln_strbuf *out);
void kiln_tracker_wants_free(kiln_tracker *t);

/* project.c */
/* What a peer is in a project, which need not be known. */
kiln_standing kiln_tracker_standing(kiln_tracker *t, const kiln_tracker_peer *peer,
                                    kiln_str project);
/* Whether the peer has the right on the project; `job`: on this job of it, which may be its own;
 * NULL. Programs have none. */
bool kiln_tracker_may(kiln_tracker *t, const kiln_tracker_peer *peer, kiln_right right,
                      kiln_str project, const kiln_tracker_job *job);
/* ERROR: who lacks which right on which project, and who gives it. */
void kiln_tracker_refuse(kiln_tracker *t, const kiln_tracker_peer *peer, uint32_t stream,
                         kiln_str about, kiln_right right, kiln_str project);
/* Whether the person may send that, as far as it can be told before it is carried out; else it has
 * been refused. A job that the person may not even see is not told from one that is not there. */
bool kiln_tracker_is_allowed(kiln_tracker *t, const kiln_tracker_peer *peer,
                             const kiln_message *message);

/* Makes an entry when there is none. */
kiln_tracker_person *kiln_tracker_person_named(kiln_tracker *t, kiln_str name);
kiln_tracker_person *kiln_tracker_person_get(kiln_tracker *t, const kiln_tracker_peer *peer);
void kiln_tracker_project_order(kiln_tracker *t, kiln_tracker_peer *client,
                                const kiln_message *message);
void kiln_tracker_project_query(kiln_tracker *t, kiln_tracker_peer *client,
                                const kiln_message *message);
void kiln_tracker_project_persisted(kiln_tracker *t, uint64_t persist, const char *failure);
KILN_MUST_USE kiln_status kiln_tracker_project_restore(kiln_tracker *t,
                                                       const kiln_tracker_row *row);

/* trusted.c */
/* NOT_FOUND: it names no signer, or none that is trusted. RESOURCE_EXHAUSTED: quota. */
KILN_MUST_USE kiln_status kiln_tracker_trusted_check(const kiln_tracker *t,
                                                     const kiln_tracker_project *project,
                                                     const kiln_msg_project_order *order);
/* Orders that were checked; they return what kiln_tracker_persist does. */
uint64_t kiln_tracker_trusted_add(kiln_tracker *t, const kiln_tracker_peer *client,
                                  kiln_tracker_project *project, kiln_str signer);
uint64_t kiln_tracker_trusted_remove(kiln_tracker *t, kiln_tracker_project *project,
                                     kiln_str signer);
void kiln_tracker_trusted_drop(kiln_tracker *t, kiln_tracker_project *project); /* all */
KILN_MUST_USE kiln_status kiln_tracker_trusted_restore(kiln_tracker *t, const kiln_tracker_row *row,
                                                       kiln_arena *scratch);
/* Views into the project; returns how many. */
uint32_t kiln_tracker_trusted_rows(const kiln_tracker *t, const kiln_tracker_project *project,
                                   kiln_msg_signer_row out[KILN_MESSAGES_TRUSTED]);
/* Those that count in the job now, as JOB_ASSIGN and JOB_DONE carry them: a view of `out`. */
kiln_str kiln_tracker_trusted_of(kiln_tracker *t, const kiln_tracker_job *job,
                                 kiln_sign_public out[KILN_MESSAGES_TRUSTED]);

/* quota.c */
/* Time of slots that the project had today. */
double kiln_tracker_project_day_ns(const kiln_tracker *t, const kiln_tracker_project *project);
/* Brings that up to now: before the slots that it holds change. */
void kiln_tracker_project_charge(kiln_tracker *t, kiln_tracker_project *project);
/* Whether its quotas let it have so many slots more. */
bool kiln_tracker_project_may_hold(const kiln_tracker *t, const kiln_tracker_project *project,
                                   uint32_t slots);
/* Looks again when its time of the day is used up, if that is before the next tick. */
void kiln_tracker_project_watch_time(kiln_tracker *t, const kiln_tracker_project *project);
/* RESOURCE_EXHAUSTED: the project, or the person, has as many as it may; counted. */
KILN_MUST_USE kiln_status kiln_tracker_quota_of_jobs(kiln_tracker *t,
                                                     const kiln_tracker_peer *client,
                                                     const kiln_msg_job_spec *spec);
KILN_MUST_USE kiln_status kiln_tracker_quota_of_queue(kiln_tracker *t,
                                                      kiln_tracker_project *project);
KILN_MUST_USE kiln_status kiln_tracker_quota_of_watchers(kiln_tracker *t,
                                                         const kiln_tracker_peer *client,
                                                         const kiln_tracker_job *job);
/* One message more of the person, and about the project where that is known; NULL. */
KILN_MUST_USE kiln_status kiln_tracker_quota_of_requests(kiln_tracker *t,
                                                         const kiln_tracker_peer *peer,
                                                         kiln_tracker_project *project);
/* Of people who ask boards: as many as `count` of this person are there already. */
KILN_MUST_USE kiln_status kiln_tracker_quota_of_askers(kiln_tracker *t, uint32_t count);
/* Whether what both hold counts together. */
bool kiln_tracker_is_same_person(const kiln_tracker_peer *a, const kiln_tracker_peer *b);
/* Ends leases of projects whose time of the day is used up; lets those go on that may again. */
void kiln_tracker_quotas_tick(kiln_tracker *t);

/* put.c */
/* What the peer put; NULL: it did not, or long ago. */
kiln_tracker_put *kiln_tracker_put_find(const kiln_tracker *t, const kiln_tracker_peer *peer,
                                        const kiln_digest *digest);
void kiln_tracker_put_add(kiln_tracker *t, const kiln_tracker_peer *peer, const kiln_digest *digest,
                          uint64_t size);
/* Whether so many bytes more leave room for what jobs and leases need of the person. */
bool kiln_tracker_put_fits(kiln_tracker *t, kiln_tracker_person *person, uint64_t size);
/* A job names it. */
void kiln_tracker_put_use(kiln_tracker *t, kiln_tracker_put *put);
void kiln_tracker_puts_tick(kiln_tracker *t);
KILN_MUST_USE kiln_status kiln_tracker_put_restore(kiln_tracker *t, const kiln_tracker_row *row);
/* After the last of them. */
void kiln_tracker_puts_restored(kiln_tracker *t);
void kiln_tracker_puts_free(kiln_tracker *t);

/* blob.c */
uint64_t kiln_tracker_project_blob_bytes(const kiln_tracker *t,
                                         const kiln_tracker_project *project);
/* 0 where the peer did not put it. */
uint64_t kiln_tracker_put_size(const kiln_tracker *t, const kiln_tracker_peer *peer,
                               const kiln_digest *digest);
/* NOT_FOUND: the client has no right to a blob that the job names. RESOURCE_EXHAUSTED: quota. */
KILN_MUST_USE kiln_status kiln_tracker_quota_of_blobs(kiln_tracker *t,
                                                      const kiln_tracker_peer *client,
                                                      const kiln_msg_job_spec *spec);
/* RESOURCE_EXHAUSTED: with so many bytes of results of this job its project would have more than
 * its quota. */
KILN_MUST_USE kiln_status kiln_tracker_quota_of_results(kiln_tracker *t,
                                                        const kiln_tracker_job *job,
                                                        uint64_t bytes);
/* The board may have what the trial names. False: a person names what it may not have itself. */
bool kiln_tracker_trial_blobs(kiln_tracker *t, const kiln_tracker_peer *sender,
                              kiln_tracker_lease *lease, const kiln_msg_trial *trial);
/* The holder of a lease may have what its board sent back; NULL swallows it. */
void kiln_tracker_outputs_sent(kiln_tracker_peer *holder, const kiln_digest *digest);

/* share.c */
/* NULL: there is none. */
kiln_tracker_project *kiln_tracker_project_find(kiln_tracker *t, kiln_str name);
kiln_tracker_project *kiln_tracker_project_get(kiln_tracker *t, kiln_str name); /* makes it */
/* It is dropped, or its day is over: goes when it has neither jobs nor leases. */
void kiln_tracker_project_forget(kiln_tracker *t, kiln_tracker_project *project);
/* Its jobs or its settings changed. */
void kiln_tracker_project_weigh(kiln_tracker *t, kiln_tracker_project *project);
kiln_tracker_project *kiln_tracker_project_join(kiln_tracker *t, kiln_tracker_job *job);
void kiln_tracker_project_leave(kiln_tracker *t, kiln_tracker_job *job);
/* Less is first: time of slots that it had or is about to have, over its weight. */
double kiln_tracker_project_claim(const kiln_tracker *t, const kiln_tracker_project *project);
/* Its first request comes into the queue. */
void kiln_tracker_project_wakes(kiln_tracker *t, kiln_tracker_project *project);
void kiln_tracker_project_granted(kiln_tracker *t, kiln_tracker_project *project, uint32_t slots);
/* `held_ns`: time of slots. */
void kiln_tracker_project_ended(kiln_tracker *t, kiln_tracker_project *project, uint32_t slots,
                                uint64_t held_ns);
/* Writes the shares that moved; not more often than every KILN_TRACKER_SHARE_NS each. */
void kiln_tracker_shares_tick(kiln_tracker *t);
KILN_MUST_USE kiln_status kiln_tracker_share_restore(kiln_tracker *t, const kiln_tracker_row *row);
void kiln_tracker_projects_free(kiln_tracker *t);

/* queue.c */
/* Number and run of its tuner name a request, also after it was granted. */
typedef struct kiln_tracker_request_key {
    uint64_t number;
    kiln_tracker_text tuner;
} kiln_tracker_request_key;
kiln_str kiln_tracker_request_name(kiln_tracker_request_key *key, const char *tuner,
                                   uint64_t number);
void kiln_tracker_lease_req(kiln_tracker *t, kiln_tracker_peer *tuner, const kiln_message *message);
/* A waiting request; NULL. */
kiln_tracker_request *kiln_tracker_request_find(kiln_tracker *t, const char *tuner,
                                                uint64_t number);
void kiln_tracker_request_remove(kiln_tracker *t, kiln_tracker_request *request);
void kiln_tracker_requests_end_of_job(kiln_tracker *t, kiln_tracker_job *job);
/* A tuner came: what a former run of it asked for is forgotten. */
void kiln_tracker_requests_tuner_up(kiln_tracker *t, const kiln_tracker_peer *tuner);
void kiln_tracker_requests_free(kiln_tracker *t);
/* Idle boards are offered again: somebody may have what was kept from them. */
void kiln_tracker_offer_idle(kiln_tracker *t);
/* Grants what can be granted on boards that were offered, and to requests that are new. */
void kiln_tracker_grant(kiln_tracker *t);

/* lease.c */
/* Takes the slot now and asks for the row to be written; the holder hears of it when that is done.
 * `request` is removed. */
void kiln_tracker_lease_grant(kiln_tracker *t, kiln_tracker_device *device, uint32_t slot,
                              kiln_tracker_request *request);
/* Whether the request was granted already; then its holder is told again, as the grant may have
 * got lost on the way. */
bool kiln_tracker_lease_repeat(kiln_tracker *t, const kiln_tracker_peer *tuner, uint64_t request);
void kiln_tracker_lease_renew(kiln_tracker *t, kiln_tracker_peer *tuner,
                              const kiln_message *message);
void kiln_tracker_lease_release(kiln_tracker *t, kiln_tracker_peer *tuner,
                                const kiln_message *message);
/* Whether it was about a lease. */
bool kiln_tracker_lease_persisted(kiln_tracker *t, uint64_t persist, const char *failure);
/* Time of slots that it took so far. */
uint64_t kiln_tracker_lease_cost(const kiln_tracker *t, const kiln_tracker_lease *lease);
kiln_tracker_lease *kiln_tracker_lease_find(kiln_tracker *t, uint64_t lease);
/* The lease that a tuner speaks of when it is its own; otherwise the tuner is told that it has
 * none. */
kiln_tracker_lease *kiln_tracker_lease_own(kiln_tracker *t, kiln_tracker_peer *tuner,
                                           uint64_t number);
/* Ends a lease: its holder is told, and its board if it knows of it; the slot is free, late results
 * are refused from here on. */
void kiln_tracker_lease_end(kiln_tracker *t, kiln_tracker_lease *lease, kiln_code code,
                            const char *why);
void kiln_tracker_leases_end_of_job(kiln_tracker *t, kiln_tracker_job *job);
/* A tuner came: what a former run of it held is free. */
void kiln_tracker_leases_tuner_up(kiln_tracker *t, const kiln_tracker_peer *tuner);
/* A tuner that is back after a restart of the tracker has said what it holds and asks for: the rest
 * of what it held, grants that it never heard of or leases it has given back, is free. */
void kiln_tracker_leases_tuner_settled(kiln_tracker *t, const kiln_tracker_peer *tuner);
/* Asks the holders of a board that shall rest to send no more trials than they have sent. */
void kiln_tracker_board_wind_down(kiln_tracker *t, const kiln_tracker_board *board);
void kiln_tracker_leases_tick(kiln_tracker *t);
KILN_MUST_USE kiln_status kiln_tracker_lease_restore(kiln_tracker *t, const kiln_tracker_row *row);
void kiln_tracker_leases_free(kiln_tracker *t);

/* relay.c */
/* The lease's board is back after a restart of the tracker: it gets what came for it meanwhile. */
void kiln_tracker_lease_hand_over(kiln_tracker *t, kiln_tracker_lease *lease);
/* From tuner to board: TRIAL, TRIAL_ACK, CANCEL; from board to tuner: TRIAL_EVENT, TRIAL_RESULT. */
void kiln_tracker_trial_down(kiln_tracker *t, kiln_tracker_peer *tuner,
                             const kiln_message *message);
void kiln_tracker_trial_up(kiln_tracker *t, kiln_tracker_peer *board, const kiln_message *message);

/* job.c */
void kiln_tracker_job_open(kiln_tracker *t, kiln_tracker_peer *client, const kiln_message *message);
void kiln_tracker_job_event(kiln_tracker *t, kiln_tracker_peer *tuner, const kiln_message *message);
void kiln_tracker_job_done(kiln_tracker *t, kiln_tracker_peer *tuner, const kiln_message *message);
void kiln_tracker_job_close(kiln_tracker *t, kiln_tracker_peer *client,
                            const kiln_message *message);
void kiln_tracker_job_cancel(kiln_tracker *t, kiln_tracker_peer *client,
                             const kiln_message *message);
void kiln_tracker_job_persisted(kiln_tracker *t, uint64_t persist, const char *failure);
void kiln_tracker_cancel_persisted(kiln_tracker *t, uint64_t persist, const char *failure);
void kiln_tracker_jobs_peer_gone(kiln_tracker *t, kiln_tracker_peer *peer);
/* Has the job's row written, and returns the number of that. */
uint64_t kiln_tracker_job_keep(kiln_tracker *t, kiln_tracker_job *job);
/* Notes whose signature the records of this tuner carry: JOB_DONE names them. */
void kiln_tracker_job_add_signer(kiln_tracker_job *job, const kiln_tracker_peer *tuner);
void kiln_tracker_job_tell(kiln_tracker *t, kiln_tracker_job *job, const kiln_tracker_peer *client,
                           uint32_t stream, const char *text);
/* Stops a job: its tuner hands in what it has, or, when there is none, it ends here and now. */
void kiln_tracker_job_stop(kiln_tracker *t, kiln_tracker_job *job, kiln_code code,
                           const char *text);
/* Ends a job without its tuner. */
void kiln_tracker_job_end(kiln_tracker *t, kiln_tracker_job *job, kiln_code code, const char *text);
kiln_tracker_job *kiln_tracker_job_find(kiln_tracker *t, kiln_str id);
/* The job of this name or the newest of its later runs, which are called NAME.RUN; one that is open
 * before those that ended. NULL: there is none. For what people ask. */
kiln_tracker_job *kiln_tracker_job_latest(kiln_tracker *t, kiln_str name);
/* Who works on a running job, when it is connected: its tuner, or its client itself; NULL. */
kiln_tracker_peer *kiln_tracker_job_worker(kiln_tracker *t, const kiln_tracker_job *job);
bool kiln_tracker_job_is_open(const kiln_tracker_job *job);
KILN_MUST_USE kiln_status kiln_tracker_job_restore(kiln_tracker *t, const kiln_tracker_row *row);
void kiln_tracker_jobs_free(kiln_tracker *t);

/* assign.c */
void kiln_tracker_jobs_tuner_up(kiln_tracker *t, kiln_tracker_peer *tuner);
/* The assignment is on disk, or is not: then the job waits again. */
void kiln_tracker_job_assigned(kiln_tracker *t, kiln_tracker_job *job, const char *failure);
/* An assignment that is not on disk yet does not count any more. */
void kiln_tracker_job_unassign(kiln_tracker *t, kiln_tracker_job *job);
/* Assigns, notices what is missing, ends what waited too long. */
void kiln_tracker_jobs_tick(kiln_tracker *t);

/* watch.c */
void kiln_tracker_watch(kiln_tracker *t, kiln_tracker_peer *client, const kiln_message *message);
void kiln_tracker_watches_tick(kiln_tracker *t);
void kiln_tracker_watches_peer_gone(kiln_tracker *t, const kiln_tracker_peer *peer);
void kiln_tracker_watches_free(kiln_tracker *t);

/* ask.c */
void kiln_tracker_probe_boards(kiln_tracker *t, kiln_tracker_peer *client,
                               const kiln_message *message);
void kiln_tracker_pong(kiln_tracker *t, kiln_tracker_peer *peer, const kiln_message *message);
void kiln_tracker_tail_ask(kiln_tracker *t, kiln_tracker_peer *client, const kiln_message *message);
void kiln_tracker_tail_lines(kiln_tracker *t, kiln_tracker_peer *board,
                             const kiln_message *message);
void kiln_tracker_asks_tick(kiln_tracker *t);
/* An asker went, or a board that was asked. */
void kiln_tracker_asks_peer_gone(kiln_tracker *t, const kiln_tracker_peer *peer);
void kiln_tracker_asks_free(kiln_tracker *t);

/* query.c */
/* Views into the tracker. */
/* Of what the board does for jobs only as much as `reader` may see; NULL: all. */
kiln_msg_board_row kiln_tracker_board_row(kiln_tracker *t, const kiln_tracker_board *board,
                                          const kiln_tracker_peer *reader);
/* Whether the peer may see that the job is there; NULL: yes. */
bool kiln_tracker_sees(kiln_tracker *t, const kiln_tracker_peer *reader,
                       const kiln_tracker_job *job);
kiln_msg_job_row kiln_tracker_job_row(const kiln_tracker *t, const kiln_tracker_job *job,
                                      bool with_tasks);
/* With its tasks, and with whom its project trusts in `trusted`. */
kiln_msg_job_row kiln_tracker_long_job_row(kiln_tracker *t, const kiln_tracker_job *job,
                                           kiln_sign_public trusted[KILN_MESSAGES_TRUSTED]);
/* Whether a row is the one asked for, by its identity or its name. */
bool kiln_tracker_is_asked(kiln_str wanted, kiln_str identity, kiln_str name);
void kiln_tracker_query(kiln_tracker *t, kiln_tracker_peer *client, const kiln_message *message);
/* ANSWER with this board's row. */
void kiln_tracker_answer_board(kiln_tracker *t, const kiln_tracker_peer *client, uint32_t stream,
                               const kiln_tracker_board *board);

/* metrics.c */
uint32_t kiln_tracker_wait_bucket(uint64_t wait_ns);

#endif
