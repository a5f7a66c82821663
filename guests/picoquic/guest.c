/* picoquic behind paceline_endpoint.h, in Paceline's process: its calls take the time, and its random bytes are ours. TLS is
 * that of picotls, with a P-256 certificate; packets are not encrypted, and tags have the length of AES-128-GCM's. */
#define _GNU_SOURCE
#include <sys/mman.h>
#include <unistd.h>

#include "guest.h"
#include "picoquic_internal.h"
#include "picotls.h"
#include "picoquic_crypto_provider_api.h"
#include "picotls/minicrypto.h"
#include "tls_api.h"

/* Its clock at the engine's origin, in microseconds: some of its times count from zero. */
static const uint64_t ORIGIN = 1000000000;
enum { LEAST = PICOQUIC_INITIAL_MTU_IPV4, MOST = PICOQUIC_MAX_PACKET_SIZE, OVERHEAD = 28 /* that its MTU counts: IPv4, UDP */ };

struct end {
    picoquic_quic_t *quic;
    picoquic_cnx_t *cnx;
    struct guest_data data;
    uint64_t now, draws, stream, delivered;
    int sends, stirred;
    uint32_t ecn;
    char why[160], options[64];
};

/* ---- random bytes: of the end that runs, one at a time in a thread ---- */

static __thread struct end *running;

/* In place of picotls' own, which reads the system's. */
void ptls_minicrypto_random_bytes(void *out, size_t size) {
    guest_fill(&running->draws, out, size);
}

static void enter(struct end *end, uint64_t now_ns) {
    running = end;
    end->now = ORIGIN + now_ns / 1000;
    /* Its draws that need not be secret are of one state for all connections: each call begins another. */
    picoquic_public_random_seed_64(guest_draw(&end->draws), 1);
}

/* ---- an AEAD that encrypts nothing: the tag is of key, IV and packet number, so that another key is refused ---- */

struct aead {
    ptls_aead_context_t super;
    uint64_t key;
    uint8_t iv[PTLS_AESGCM_IV_SIZE];
};

static void tag(const struct aead *aead, uint64_t number, uint8_t *out) {
    uint64_t words[2] = {aead->key ^ number};
    memcpy(&words[1], aead->iv, sizeof words[1]);
    memcpy(out, words, PTLS_AESGCM_TAG_SIZE);
}

static void aead_dispose(ptls_aead_context_t *super) {
    (void)super;
}

static void aead_get_iv(ptls_aead_context_t *super, void *iv) {
    memcpy(iv, ((struct aead *)super)->iv, PTLS_AESGCM_IV_SIZE);
}

static void aead_set_iv(ptls_aead_context_t *super, const void *iv) {
    memcpy(((struct aead *)super)->iv, iv, PTLS_AESGCM_IV_SIZE);
}

static void aead_encrypt_v(ptls_aead_context_t *super, void *output, ptls_iovec_t *input, size_t count, uint64_t number,
                           const void *more, size_t more_size) {
    (void)more, (void)more_size;
    uint8_t *out = output;
    for (size_t i = 0; i < count; i++)
        memmove(out, input[i].base, input[i].len), out += input[i].len;
    tag((struct aead *)super, number, out);
}

static void aead_encrypt(ptls_aead_context_t *super, void *output, const void *input, size_t size, uint64_t number,
                         const void *more, size_t more_size, ptls_aead_supplementary_encryption_t *supplement) {
    ptls_iovec_t one = ptls_iovec_init(input, size);
    aead_encrypt_v(super, output, &one, 1, number, more, more_size);
    if (supplement != NULL)
        memset(supplement->output, 0, sizeof supplement->output);
}

static size_t aead_decrypt(ptls_aead_context_t *super, void *output, const void *input, size_t size, uint64_t number,
                           const void *more, size_t more_size) {
    (void)more, (void)more_size;
    uint8_t expected[PTLS_AESGCM_TAG_SIZE];
    if (size < sizeof expected)
        return SIZE_MAX;
    tag((struct aead *)super, number, expected);
    if (memcmp((const uint8_t *)input + size - sizeof expected, expected, sizeof expected) != 0)
        return SIZE_MAX;
    memmove(output, input, size - sizeof expected);
    return size - sizeof expected;
}

static int aead_setup(ptls_aead_context_t *super, int is_encryption, const void *key, const void *iv) {
    (void)is_encryption;
    struct aead *aead = (struct aead *)super;
    super->dispose_crypto = aead_dispose, super->do_get_iv = aead_get_iv, super->do_set_iv = aead_set_iv;
    super->do_encrypt = aead_encrypt, super->do_encrypt_v = aead_encrypt_v, super->do_decrypt = aead_decrypt;
    memcpy(&aead->key, key, sizeof aead->key);
    memcpy(aead->iv, iv, sizeof aead->iv);
    return 0;
}

/* Header protection: it masks with its input, which is zeros where it protects. */

static void cipher_dispose(ptls_cipher_context_t *context) {
    (void)context;
}

static void cipher_init(ptls_cipher_context_t *context, const void *iv) {
    (void)context, (void)iv;
}

static void cipher_transform(ptls_cipher_context_t *context, void *output, const void *input, size_t size) {
    (void)context;
    memmove(output, input, size);
}

static int cipher_setup(ptls_cipher_context_t *context, int is_encryption, const void *key) {
    (void)is_encryption, (void)key;
    context->do_dispose = cipher_dispose, context->do_init = cipher_init, context->do_transform = cipher_transform;
    return 0;
}

static ptls_cipher_algorithm_t ctr = {"AES128-CTR", PTLS_AES128_KEY_SIZE, 1, PTLS_AES_IV_SIZE, sizeof(ptls_cipher_context_t),
                                      cipher_setup};
static ptls_cipher_algorithm_t ecb = {"AES128-ECB", PTLS_AES128_KEY_SIZE, PTLS_AES_BLOCK_SIZE, 0,
                                      sizeof(ptls_cipher_context_t), cipher_setup};
static ptls_aead_algorithm_t null_aead = {
    .name = "AES128-GCM", .confidentiality_limit = PTLS_AESGCM_CONFIDENTIALITY_LIMIT,
    .integrity_limit = PTLS_AESGCM_INTEGRITY_LIMIT, .ctr_cipher = &ctr, .ecb_cipher = &ecb, .key_size = PTLS_AES128_KEY_SIZE,
    .iv_size = PTLS_AESGCM_IV_SIZE, .tag_size = PTLS_AESGCM_TAG_SIZE,
    .tls12 = {PTLS_TLS12_AESGCM_FIXED_IV_SIZE, PTLS_TLS12_AESGCM_RECORD_IV_SIZE}, .context_size = sizeof(struct aead),
    .setup_crypto = aead_setup};
static ptls_cipher_suite_t suite = {.id = PTLS_CIPHER_SUITE_AES_128_GCM_SHA256,
                                    .name = PTLS_CIPHER_SUITE_NAME_AES_128_GCM_SHA256, .aead = &null_aead,
                                    .hash = &ptls_minicrypto_sha256};

/* ---- the connection ---- */

/* The server's, of which nothing is secret: clients verify none. */
static const char CERTIFICATE[] =
    "-----BEGIN CERTIFICATE-----\n"
    "MIIBgDCCASWgAwIBAgIUGF/tQPrskrWRHXq/LSmeYJH2Kk0wCgYIKoZIzj0EAwIw\n"
    "FDESMBAGA1UEAwwJbG9jYWxob3N0MCAXDTI2MTEyODAzMDkzMloYDzIxMjYxMTA0\n"
    "MDMwOTMyWjAUMRIwEAYDVQQDDAlsb2NhbGhvc3QwWTATBgcqhkjOPQIBBggqhkjO\n"
    "PQMBBwNCAAS3rcYuw26sVoaFPgWMhFtTr3sXXWsql0nL2bBXE6g43HxPzoAN/BbB\n"
    "VLw0GO+Z85xrS9y6/rKR+ia/kYWp3/GDo1MwUTAdBgNVHQ4EFgQUJhaZgXEwrvq4\n"
    "F8Nk0okHlhgP9v4wHwYDVR0jBBgwFoAUJhaZgXEwrvq4F8Nk0okHlhgP9v4wDwYD\n"
    "VR0TAQH/BAUwAwEB/zAKBggqhkjOPQQDAgNJADBGAiEA5MM4xAJFI1stUzwr1jPD\n"
    "X2GSTYMLo2hipw46pqZywtwCIQD0MXDHR3jYeKyU8SybBmMgADl/+wZNhgGJ4xw8\n"
    "XpGzLA==\n"
    "-----END CERTIFICATE-----\n";
static const char KEY[] =
    "-----BEGIN PRIVATE KEY-----\n"
    "MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgTKAXlIiGfupsGn/f\n"
    "nGS9tmE6CtRqIHFKezck5peVR8+hRANCAAS3rcYuw26sVoaFPgWMhFtTr3sXXWsq\n"
    "l0nL2bBXE6g43HxPzoAN/BbBVLw0GO+Z85xrS9y6/rKR+ia/kYWp3/GD\n"
    "-----END PRIVATE KEY-----\n";

/* A file that is nowhere but in memory, by its path. */
static int in_memory(const char *text, char *path, size_t size) {
    int file = memfd_create("pem", 0);
    if (file < 0 || write(file, text, strlen(text)) != (ssize_t)strlen(text))
        return -1;
    snprintf(path, size, "/proc/self/fd/%d", file);
    return file;
}

static void address(struct sockaddr_in *out, int is_client) {
    memset(out, 0, sizeof *out);
    out->sin_family = AF_INET, out->sin_port = htons(is_client ? 4001 : 4433);
    out->sin_addr.s_addr = htonl(is_client ? 0x0a000001 : 0x0a000002);
}

static int happened(picoquic_cnx_t *cnx, uint64_t stream, uint8_t *bytes, size_t size, picoquic_call_back_event_t event,
                    void *context, void *stream_context) {
    (void)stream, (void)stream_context;
    struct end *end = context;
    end->cnx = cnx;
    switch (event) {
    case picoquic_callback_stream_data:
    case picoquic_callback_stream_fin:
        end->delivered += size;
        break;
    case picoquic_callback_prepare_to_send: {
        size_t some = end->data.unwritten < size ? (size_t)end->data.unwritten : size;
        int is_last = end->data.unwritten == some;
        uint8_t *room = picoquic_provide_stream_data_buffer(bytes, some, is_last && end->data.closes, !is_last);
        if (room == NULL)
            return -1;
        memset(room, 0, some);
        guest_wrote(&end->data, some);
        break;
    }
    case picoquic_callback_close:
    case picoquic_callback_application_close:
    case picoquic_callback_stateless_reset:
        guest_fail(end->why, "it closed its connection: local error 0x%llx, remote error 0x%llx",
                   (unsigned long long)picoquic_get_local_error(cnx), (unsigned long long)picoquic_get_remote_error(cnx));
        break;
    default:
        break;
    }
    return 0;
}

static void fini(void *state) {
    struct end *end = state;
    running = end;
    if (end->quic != NULL)
        picoquic_free(end->quic);
}

static const char *connect_to(struct end *end, const char *controller) {
    static const picoquic_connection_id_t NONE;
    const picoquic_congestion_algorithm_t *algorithm = picoquic_get_congestion_algorithm(controller);
    if (algorithm == NULL)
        return "it has the controllers bbr, bbr1, cubic, dcubic, newreno, fast, prague, c4";
    picoquic_set_default_congestion_algorithm_ex(end->quic, algorithm, end->options[0] ? end->options : NULL);
    struct sockaddr_in to;
    address(&to, 0);
    end->cnx = picoquic_create_cnx(end->quic, NONE, NONE, (struct sockaddr *)&to, end->now, 0, "localhost", "paceline", 1);
    if (end->cnx == NULL)
        return "picoquic_create_cnx refuses";
    picoquic_set_callback(end->cnx, happened, end);
    end->stream = picoquic_get_next_local_stream_id(end->cnx, 1);
    return picoquic_start_client_cnx(end->cnx) != 0 ? "picoquic_start_client_cnx refuses" : NULL;
}

static uint32_t init(const struct paceline_stack *stack, void *state, const struct paceline_end_config *config,
                     const struct paceline_option *options, size_t option_count, char *message, size_t message_size) {
    (void)stack;
    static const uint8_t TICKETS[16] = {1};
    struct end *end = state;
    memset(end, 0, sizeof *end);
    end->draws = config->seed, end->sends = config->sends, end->stirred = 1;
    if (config->max_datagram_bytes < LEAST || config->max_datagram_bytes > MOST) {
        snprintf(message, message_size, "datagrams are of %d to %d bytes", LEAST, MOST);
        return PACELINE_BAD_CONFIG;
    }
    for (size_t i = 0; i < option_count; i++) {
        if (!guest_is(options[i].name, "options") || options[i].value.length >= sizeof end->options) {
            snprintf(message, message_size, "its one option is `options`: the controller's option string in picoquic, of at most"
                     " %zu characters", sizeof end->options - 1);
            return PACELINE_BAD_OPTION;
        }
        memcpy(end->options, options[i].value.data, options[i].value.length);
    }
    enter(end, config->now_ns);
    picoquic_tls_api_init();
    picoquic_register_ciphersuite(&suite, 1);
    picoquic_register_all_congestion_control_algorithms();
    char certificate[32], key[32], *paths[2] = {NULL, NULL};
    int files[2] = {-1, -1};
    if (!end->sends) {
        files[0] = in_memory(CERTIFICATE, paths[0] = certificate, sizeof certificate);
        files[1] = in_memory(KEY, paths[1] = key, sizeof key);
    }
    end->quic = picoquic_create(1, paths[0], paths[1], NULL, "paceline", happened, end, NULL, NULL, NULL, end->now, &end->now,
                                NULL, TICKETS, sizeof TICKETS);
    for (int i = 0; i < 2; i++)
        if (files[i] >= 0)
            close(files[i]);
    const char *why = end->quic == NULL ? "picoquic_create refuses" : NULL;
    if (why == NULL) {
        picoquic_set_null_verifier(end->quic);
        picoquic_set_cipher_suite(end->quic, PICOQUIC_AES_128_GCM_SHA256);
        picoquic_set_mtu_max(end->quic, config->max_datagram_bytes + OVERHEAD);
        picoquic_set_default_tp_value(end->quic, picoquic_tp_initial_max_data, GUEST_WINDOW);
        picoquic_set_default_tp_value(end->quic, picoquic_tp_initial_max_stream_data_uni, GUEST_WINDOW);
    }
    if (why == NULL && end->sends) {
        char name[32] = {0};
        if (config->controller.length < sizeof name)
            memcpy(name, config->controller.data, config->controller.length);
        why = connect_to(end, name);
    }
    if (why != NULL) {
        snprintf(message, message_size, "%s", why);
        fini(end);
        return PACELINE_BAD_CONFIG;
    }
    end->ecn = end->quic->default_congestion_alg->ecn_mark; /* as its own packet loop marks */
    return PACELINE_OK;
}

static void receive(void *state, uint64_t now_ns, const struct paceline_datagram *datagram) {
    struct end *end = state;
    struct sockaddr_in from, to;
    uint8_t copy[PICOQUIC_MAX_PACKET_SIZE]; /* it decrypts in place */
    if (datagram->size_bytes > sizeof copy)
        return;
    enter(end, now_ns);
    address(&from, !end->sends), address(&to, end->sends);
    memcpy(copy, datagram->data, datagram->size_bytes);
    uint8_t ecn = datagram->ecn == PACELINE_ECN_UNKNOWN ? 0 : (uint8_t)datagram->ecn;
    /* What it cannot read it drops. */
    (void)picoquic_incoming_packet(end->quic, copy, datagram->size_bytes, (struct sockaddr *)&from, (struct sockaddr *)&to, 0,
                                   ecn, end->now);
    end->stirred = 1;
}

static void on_timer(void *state, uint64_t now_ns) {
    struct end *end = state;
    enter(end, now_ns);
    end->stirred = 1;
}

static uint32_t poll_transmit(void *state, uint64_t now_ns, struct paceline_batch *batch) {
    struct end *end = state;
    if (!end->stirred)
        return 0;
    enter(end, now_ns);
    struct sockaddr_storage to, from;
    picoquic_connection_id_t id;
    picoquic_cnx_t *last = NULL;
    int interface = 0;
    size_t size = 0;
    int wrong = picoquic_prepare_next_packet(end->quic, end->now, batch->data, batch->capacity_bytes, &size, &to, &from,
                                             &interface, &id, &last);
    if (wrong)
        guest_fail(end->why, "picoquic_prepare_next_packet returns 0x%x", (unsigned)wrong);
    if (size == 0 || wrong) {
        end->stirred = 0;
        return 0;
    }
    batch->size_bytes = batch->segment_size_bytes = (uint32_t)size;
    batch->ecn = end->ecn;
    return 1;
}

static uint64_t next_timer(void *state) {
    struct end *end = state;
    running = end;
    uint64_t due = picoquic_get_next_wake_time(end->quic, end->now);
    if (due == UINT64_MAX)
        return PACELINE_NONE;
    return ((due <= end->now ? end->now + 1 : due) - ORIGIN) * 1000;
}

static void write_data(void *state, uint64_t now_ns, uint64_t bytes, uint8_t stop, uint8_t close) {
    struct end *end = state;
    enter(end, now_ns);
    guest_write(&end->data, bytes, stop, close);
    if (end->sends && (end->data.unwritten > 0 || end->data.closes))
        picoquic_mark_active_stream(end->cnx, end->stream, 1, end);
    end->stirred = 1;
}

static uint64_t delivered(const void *state) {
    return ((const struct end *)state)->delivered;
}

static void stats(const void *state, struct paceline_stats *out) {
    picoquic_cnx_t *cnx = ((const struct end *)state)->cnx;
    if (cnx == NULL)
        return;
    picoquic_path_quality_t path;
    picoquic_get_default_path_quality(cnx, &path);
    out->cwnd_bytes = path.cwin, out->in_flight_bytes = path.bytes_in_transit;
    if (path.pacing_rate > 0)
        out->pacing_rate_bps = path.pacing_rate * 8;
    if (path.receive_rate_estimate > 0)
        out->delivery_rate_bps = path.receive_rate_estimate * 8;
    if (path.rtt_min > 0 && path.rtt_sample > 0)
        out->latest_rtt_ns = path.rtt_sample * 1000, out->srtt_ns = path.rtt * 1000, out->min_rtt_ns = path.rtt_min * 1000;
    out->acknowledged_bytes = cnx->path[0]->delivered;
    out->sent_packets = path.sent, out->lost_packets = path.lost;
    out->app_limited = cnx->path[0]->delivered_limited_index != 0;
    const picoquic_congestion_algorithm_t *algorithm = cnx->congestion_alg;
    uint64_t number = 0, bandwidth = 0; /* bytes a second */
    if (strncmp(algorithm->congestion_algorithm_id, "bbr", 3) == 0)
        algorithm->alg_observe(cnx->path[0], &number, &bandwidth);
    if (bandwidth > 0)
        out->bandwidth_bps = bandwidth * 8;
}

static paceline_string phase(const void *state) {
    /* What its controllers show of themselves, by the numbers of their states; `bbr` has flags above the lowest byte. */
    static const char *const BBR[] = {"Startup", "Drain", "ProbeBW_DOWN", "ProbeBW_CRUISE", "ProbeBW_REFILL", "ProbeBW_UP",
                                      "ProbeRTT", "StartupLongRTT", "StartupResume"};
    static const char *const BBR1[] = {"Startup", "Drain", "ProbeBW", "ProbeRTT", "StartupLongRTT"};
    static const char *const RENO[] = {"SlowStart", "CongestionAvoidance"};
    static const char *const CUBIC[] = {"SlowStart", "Recovery", "CongestionAvoidance"};
    static const char *const FAST[] = {"Initial", "Eval", "Freeze"};
    static const char *const C4[] = {"Initial", "Recovery", "Cruising", "Probing", "Pushing", "Resuming"};
    static const struct { const char *name; const char *const *states; size_t count; } KNOWN[] = {
        {"bbr", BBR, 9}, {"bbr1", BBR1, 5}, {"newreno", RENO, 2}, {"prague", RENO, 2}, {"cubic", CUBIC, 3},
        {"dcubic", CUBIC, 3}, {"fast", FAST, 3}, {"c4", C4, 6}};
    const struct end *end = state;
    if (!end->sends)
        return guest_text("");
    const picoquic_congestion_algorithm_t *algorithm = end->cnx->congestion_alg;
    uint64_t number = 0, parameter = 0;
    algorithm->alg_observe(end->cnx->path[0], &number, &parameter);
    for (size_t i = 0; i < sizeof KNOWN / sizeof *KNOWN; i++)
        if (strcmp(algorithm->congestion_algorithm_id, KNOWN[i].name) == 0 && (number & 0xff) < KNOWN[i].count)
            return guest_text(KNOWN[i].states[number & 0xff]);
    return guest_text("");
}

static uint32_t failure(const void *state, char *message, size_t message_size) {
    return guest_failed(((const struct end *)state)->why, message, message_size);
}

static uint32_t option(const struct paceline_stack *stack, size_t index, struct paceline_option_info *out) {
    (void)stack;
    if (index > 0)
        return PACELINE_NOT_FOUND;
    out->name = guest_text("options");
    out->about = guest_text("the controller's option string, as picoquicdemo takes it");
    return PACELINE_OK;
}

GUEST_EXPORT uint32_t paceline_stack_get(size_t index, struct paceline_stack *out, size_t out_size) {
    static const struct paceline_stack TABLE = {
        .abi_version = PACELINE_ENDPOINT_ABI_VERSION,
        .table_size = sizeof(struct paceline_stack),
        .name = PACELINE_STRING("picoquic"),
        .summary = PACELINE_STRING("picoquic, of Private Octopus, with TLS and without encryption of packets"),
        .version = PACELINE_STRING(PICOQUIC_VERSION),
        .state_size = sizeof(struct end),
        .state_align = _Alignof(struct end),
        .max_batch_bytes = MOST,
        .init = init,
        .fini = fini,
        .receive = receive,
        .on_timer = on_timer,
        .poll_transmit = poll_transmit,
        .next_timer = next_timer,
        .write = write_data,
        .delivered = delivered,
        .stats = stats,
        .controllers = PACELINE_STRING("bbr,bbr1,cubic,dcubic,newreno,fast,prague,c4"),
        .failure = failure,
        .phase = phase,
        .option = option,
    };
    return guest_table(&TABLE, index, out, out_size);
}
