/* ngtcp2 behind paceline_endpoint.h, in Paceline's process: it takes nanoseconds, and cryptography and random bytes from
 * callbacks. Its handshake has messages of the sizes of a TLS 1.3 handshake with a small certificate; nothing is encrypted,
 * and tags have the length of AES-128-GCM's. */
#include <arpa/inet.h>
#include <netinet/in.h>

#include "guest.h"
#include "ngtcp2_conn.h" /* the state of its controller is in no public header */

/* Its clock at the engine's origin: it looks back in time. */
static const uint64_t ORIGIN = 1000000000;
/* How long a timer waits at least: a due one without an effect would not let time go on. */
static const uint64_t TIMER_FLOOR = 1000;
enum { TAG = 16, ID = 18, HELLO = 300, CERTIFICATES = 1200, FINISHED = 36, LEAST = 1200, MOST = 65000 };

struct end {
    ngtcp2_conn *conn;
    ngtcp2_path path;
    struct sockaddr_in local, remote;
    ngtcp2_settings settings;
    ngtcp2_transport_params params;
    struct guest_data data;
    uint64_t now, draws, delivered;
    size_t message, burst_left; /* bytes of the handshake's message that are here; of the burst that may still leave */
    int64_t stream;
    int sends, stirred, in_burst;
    uint8_t room[CERTIFICATES];
    char why[128];
};

static void new_id(struct end *end, ngtcp2_cid *id, size_t size) {
    uint8_t bytes[NGTCP2_MAX_CIDLEN];
    guest_fill(&end->draws, bytes, size);
    ngtcp2_cid_init(id, bytes, size);
}

/* ---- cryptography that encrypts nothing: a packet's tag is its nonce, so that a packet whose number was decoded wrongly
 * is refused, as by a real AEAD (RFC 9000, A.3) ---- */

static uint8_t key; /* a context may not be null */
static const uint8_t IV[12], SECRET[32];

static int encrypt(uint8_t *out, const ngtcp2_crypto_aead *aead, const ngtcp2_crypto_aead_ctx *context, const uint8_t *text,
                   size_t size, const uint8_t *nonce, size_t nonce_size, const uint8_t *more, size_t more_size) {
    (void)aead, (void)context, (void)more, (void)more_size;
    memmove(out, text, size);
    memset(out + size, 0, TAG);
    memcpy(out + size, nonce, nonce_size);
    return 0;
}

static int decrypt(uint8_t *out, const ngtcp2_crypto_aead *aead, const ngtcp2_crypto_aead_ctx *context, const uint8_t *text,
                   size_t size, const uint8_t *nonce, size_t nonce_size, const uint8_t *more, size_t more_size) {
    (void)aead, (void)context, (void)more, (void)more_size;
    if (size < TAG || memcmp(text + size - TAG, nonce, nonce_size) != 0)
        return NGTCP2_ERR_DECRYPT;
    memmove(out, text, size - TAG);
    return 0;
}

static int mask(uint8_t *out, const ngtcp2_crypto_cipher *cipher, const ngtcp2_crypto_cipher_ctx *context,
                const uint8_t *sample) {
    (void)cipher, (void)context, (void)sample;
    memset(out, 0, NGTCP2_HP_MASKLEN);
    return 0;
}

static void on_delete_aead(ngtcp2_conn *conn, ngtcp2_crypto_aead_ctx *context, void *user) {
    (void)conn, (void)context, (void)user;
}

static void on_delete_cipher(ngtcp2_conn *conn, ngtcp2_crypto_cipher_ctx *context, void *user) {
    (void)conn, (void)context, (void)user;
}

static int on_update(ngtcp2_conn *conn, uint8_t *rx_secret, uint8_t *tx_secret, ngtcp2_crypto_aead_ctx *rx, uint8_t *rx_iv,
                     ngtcp2_crypto_aead_ctx *tx, uint8_t *tx_iv, const uint8_t *old_rx, const uint8_t *old_tx, size_t size,
                     void *user) {
    (void)conn, (void)old_rx, (void)old_tx, (void)user;
    memset(rx_secret, 0, size), memset(tx_secret, 0, size);
    memset(rx_iv, 0, sizeof IV), memset(tx_iv, 0, sizeof IV);
    rx->native_handle = tx->native_handle = &key;
    return 0;
}

static int initial_keys(ngtcp2_conn *conn) {
    ngtcp2_crypto_ctx context = {
        .aead.max_overhead = TAG, .max_encryption = UINT64_MAX, .max_decryption_failure = UINT64_MAX};
    ngtcp2_conn_set_initial_crypto_ctx(conn, &context);
    ngtcp2_conn_set_crypto_ctx(conn, &context);
    ngtcp2_crypto_aead_ctx aead = {&key};
    ngtcp2_crypto_cipher_ctx cipher = {&key};
    return ngtcp2_conn_install_initial_key(conn, &aead, IV, &cipher, &aead, IV, &cipher, sizeof IV);
}

static int handshake_keys(ngtcp2_conn *conn) {
    ngtcp2_crypto_aead_ctx rx = {&key}, tx = {&key};
    ngtcp2_crypto_cipher_ctx cipher = {&key};
    int wrong = ngtcp2_conn_install_rx_handshake_key(conn, &rx, IV, sizeof IV, &cipher);
    return wrong ? wrong : ngtcp2_conn_install_tx_handshake_key(conn, &tx, IV, sizeof IV, &cipher);
}

static int rx_key(ngtcp2_conn *conn) {
    ngtcp2_crypto_aead_ctx aead = {&key};
    ngtcp2_crypto_cipher_ctx cipher = {&key};
    return ngtcp2_conn_install_rx_key(conn, SECRET, sizeof SECRET, &aead, IV, sizeof IV, &cipher);
}

static int tx_key(ngtcp2_conn *conn) {
    ngtcp2_crypto_aead_ctx aead = {&key};
    ngtcp2_crypto_cipher_ctx cipher = {&key};
    return ngtcp2_conn_install_tx_key(conn, SECRET, sizeof SECRET, &aead, IV, sizeof IV, &cipher);
}

/* ---- the handshake: a message of a fixed size for each of TLS's flights, which begins with transport parameters ---- */

static int submit(ngtcp2_conn *conn, ngtcp2_encryption_level level, size_t size, int with_params) {
    uint8_t bytes[CERTIFICATES] = {0};
    if (with_params) {
        ngtcp2_ssize n = ngtcp2_conn_encode_local_transport_params(conn, bytes + 2, size - 2);
        if (n < 0)
            return (int)n;
        bytes[0] = (uint8_t)(n >> 8), bytes[1] = (uint8_t)n;
    }
    return ngtcp2_conn_submit_crypto_data(conn, level, bytes, size);
}

static int take_params(ngtcp2_conn *conn, const uint8_t *message, size_t size) {
    size_t n = (size_t)message[0] << 8 | message[1];
    return n + 2 > size ? NGTCP2_ERR_MALFORMED_TRANSPORT_PARAM
                        : ngtcp2_conn_decode_and_set_remote_transport_params(conn, message + 2, n);
}

static int on_client_initial(ngtcp2_conn *conn, void *user) {
    (void)user;
    return initial_keys(conn) || submit(conn, NGTCP2_ENCRYPTION_LEVEL_INITIAL, HELLO, 1) ? NGTCP2_ERR_CALLBACK_FAILURE : 0;
}

static int on_server_initial(ngtcp2_conn *conn, const ngtcp2_cid *dcid, void *user) {
    (void)dcid, (void)user;
    return initial_keys(conn);
}

static int answered(struct end *end, ngtcp2_conn *conn, ngtcp2_encryption_level level) {
    int wrong;
    if (level == NGTCP2_ENCRYPTION_LEVEL_INITIAL && end->sends)
        return handshake_keys(conn);
    if (level == NGTCP2_ENCRYPTION_LEVEL_INITIAL) {
        if ((wrong = take_params(conn, end->room, HELLO)) != 0 ||
            (wrong = submit(conn, NGTCP2_ENCRYPTION_LEVEL_INITIAL, HELLO, 0)) != 0 || (wrong = handshake_keys(conn)) != 0 ||
            (wrong = submit(conn, NGTCP2_ENCRYPTION_LEVEL_HANDSHAKE, CERTIFICATES, 1)) != 0)
            return wrong;
        return tx_key(conn);
    }
    if (end->sends && ((wrong = take_params(conn, end->room, CERTIFICATES)) != 0 ||
                       (wrong = submit(conn, NGTCP2_ENCRYPTION_LEVEL_HANDSHAKE, FINISHED, 0)) != 0 ||
                       (wrong = tx_key(conn)) != 0))
        return wrong;
    if ((wrong = rx_key(conn)) == 0)
        ngtcp2_conn_tls_handshake_completed(conn);
    return wrong;
}

static int on_crypto(ngtcp2_conn *conn, ngtcp2_encryption_level level, uint64_t offset, const uint8_t *bytes, size_t size,
                     void *user) {
    (void)offset; /* it delivers in order */
    struct end *end = user;
    size_t whole = level == NGTCP2_ENCRYPTION_LEVEL_INITIAL ? HELLO : end->sends ? CERTIFICATES : FINISHED;
    if (end->message + size > whole)
        return NGTCP2_ERR_CRYPTO;
    memcpy(end->room + end->message, bytes, size);
    if ((end->message += size) < whole)
        return 0;
    end->message = 0;
    return answered(end, conn, level);
}

/* ---- the other callbacks ---- */

static void on_random(uint8_t *out, size_t size, const ngtcp2_rand_ctx *context) {
    guest_fill(&((struct end *)context->native_handle)->draws, out, size);
}

static int on_new_id(ngtcp2_conn *conn, ngtcp2_cid *id, uint8_t *token, size_t size, void *user) {
    (void)conn;
    new_id(user, id, size);
    guest_fill(&((struct end *)user)->draws, token, NGTCP2_STATELESS_RESET_TOKENLEN);
    return 0;
}

static int on_challenge(ngtcp2_conn *conn, uint8_t *out, void *user) {
    (void)conn;
    guest_fill(&((struct end *)user)->draws, out, NGTCP2_PATH_CHALLENGE_DATALEN);
    return 0;
}

static int on_retry(ngtcp2_conn *conn, const ngtcp2_pkt_hd *header, void *user) {
    (void)conn, (void)header, (void)user;
    return NGTCP2_ERR_CALLBACK_FAILURE; /* the other end sends none */
}

static int on_data(ngtcp2_conn *conn, uint32_t flags, int64_t stream, uint64_t offset, const uint8_t *bytes, size_t size,
                   void *user, void *stream_user) {
    (void)flags, (void)offset, (void)bytes, (void)stream_user;
    ((struct end *)user)->delivered += size;
    ngtcp2_conn_extend_max_stream_offset(conn, stream, size);
    ngtcp2_conn_extend_max_offset(conn, size);
    return 0;
}

static const ngtcp2_callbacks CALLBACKS = {
    .client_initial = on_client_initial, .recv_client_initial = on_server_initial, .recv_crypto_data = on_crypto,
    .encrypt = encrypt, .decrypt = decrypt, .hp_mask = mask, .update_key = on_update,
    .delete_crypto_aead_ctx = on_delete_aead, .delete_crypto_cipher_ctx = on_delete_cipher, .recv_retry = on_retry,
    .rand = on_random, .get_new_connection_id = on_new_id, .get_path_challenge_data = on_challenge,
    .recv_stream_data = on_data};

/* ---- the end ---- */

static void address(struct sockaddr_in *out, int is_client) {
    out->sin_family = AF_INET, out->sin_port = htons(is_client ? 4001 : 4433);
    out->sin_addr.s_addr = htonl(is_client ? 0x0a000001 : 0x0a000002);
}

static void at(struct end *end, uint64_t now_ns) {
    end->now = now_ns + ORIGIN;
    end->stirred = 1;
}

static void fini(void *state) {
    struct end *end = state;
    if (end->conn != NULL)
        ngtcp2_conn_del(end->conn);
}

static uint32_t init(const struct paceline_stack *stack, void *state, const struct paceline_end_config *config,
                     const struct paceline_option *options, size_t option_count, char *message, size_t message_size) {
    (void)stack;
    static const struct { const char *name; ngtcp2_cc_algo algorithm; } CONTROLLERS[] = {
        {"bbr", NGTCP2_CC_ALGO_BBR}, {"cubic", NGTCP2_CC_ALGO_CUBIC}, {"reno", NGTCP2_CC_ALGO_RENO}};
    struct end *end = state;
    memset(end, 0, sizeof *end);
    end->draws = config->seed, end->sends = config->sends, end->stream = -1;
    at(end, config->now_ns);
    if (config->max_datagram_bytes < LEAST || config->max_datagram_bytes > MOST) {
        snprintf(message, message_size, "datagrams are of %d to %d bytes", LEAST, MOST);
        return PACELINE_BAD_CONFIG;
    }
    ngtcp2_settings_default(&end->settings);
    end->settings.initial_ts = end->now;
    end->settings.rand_ctx.native_handle = end;
    /* The path takes this size from the start. */
    end->settings.max_tx_udp_payload_size = config->max_datagram_bytes;
    end->settings.no_tx_udp_payload_size_shaping = end->settings.no_pmtud = 1;
    if (option_count > 0) {
        snprintf(message, message_size, "it has no options, and `%.*s` was given", (int)options[0].name.length,
                 options[0].name.data);
        return PACELINE_BAD_OPTION;
    }
    address(&end->local, end->sends), address(&end->remote, !end->sends);
    end->path.local = (ngtcp2_addr){(ngtcp2_sockaddr *)&end->local, sizeof end->local};
    end->path.remote = (ngtcp2_addr){(ngtcp2_sockaddr *)&end->remote, sizeof end->remote};
    ngtcp2_transport_params_default(&end->params);
    end->params.initial_max_data = end->params.initial_max_stream_data_uni = GUEST_WINDOW;
    end->params.initial_max_streams_uni = 1;
    end->params.max_udp_payload_size = config->max_datagram_bytes;
    if (!end->sends)
        return PACELINE_OK; /* the first datagram makes its connection */
    size_t which = 0, known = sizeof CONTROLLERS / sizeof *CONTROLLERS;
    while (which < known && !guest_is(config->controller, CONTROLLERS[which].name))
        which++;
    if (which == known) {
        snprintf(message, message_size, "no controller of ngtcp2 is called `%.*s`; it has bbr, cubic, reno",
                 (int)config->controller.length, config->controller.data);
        return PACELINE_BAD_CONFIG;
    }
    end->settings.cc_algo = CONTROLLERS[which].algorithm;
    ngtcp2_cid dcid, scid;
    new_id(end, &dcid, ID), new_id(end, &scid, ID);
    int wrong = ngtcp2_conn_client_new(&end->conn, &dcid, &scid, &end->path, NGTCP2_PROTO_VER_V1, &CALLBACKS, &end->settings,
                                       &end->params, NULL, end);
    if (wrong) {
        snprintf(message, message_size, "ngtcp2_conn_client_new: %s", ngtcp2_strerror(wrong));
        return PACELINE_BAD_CONFIG;
    }
    return PACELINE_OK;
}

static void accept_from(struct end *end, const struct paceline_datagram *datagram) {
    ngtcp2_version_cid ids;
    if (ngtcp2_pkt_decode_version_cid(&ids, datagram->data, datagram->size_bytes, ID) != 0)
        return;
    ngtcp2_cid dcid, scid;
    ngtcp2_cid_init(&dcid, ids.scid, ids.scidlen);
    new_id(end, &scid, ID);
    ngtcp2_cid_init(&end->params.original_dcid, ids.dcid, ids.dcidlen);
    end->params.original_dcid_present = 1;
    end->settings.initial_ts = end->now;
    int wrong = ngtcp2_conn_server_new(&end->conn, &dcid, &scid, &end->path, NGTCP2_PROTO_VER_V1, &CALLBACKS, &end->settings,
                                       &end->params, NULL, end);
    if (wrong)
        guest_fail(end->why, "ngtcp2_conn_server_new: %s", ngtcp2_strerror(wrong));
}

static void receive(void *state, uint64_t now_ns, const struct paceline_datagram *datagram) {
    struct end *end = state;
    at(end, now_ns);
    if (end->conn == NULL)
        accept_from(end, datagram);
    if (end->conn == NULL)
        return;
    ngtcp2_pkt_info info = {.ecn = datagram->ecn == PACELINE_ECN_UNKNOWN ? NGTCP2_ECN_NOT_ECT : datagram->ecn};
    int wrong = ngtcp2_conn_read_pkt(end->conn, &end->path, &info, datagram->data, datagram->size_bytes, end->now);
    if (wrong)
        guest_fail(end->why, "ngtcp2_conn_read_pkt: %s", ngtcp2_strerror(wrong));
}

static void on_timer(void *state, uint64_t now_ns) {
    struct end *end = state;
    at(end, now_ns);
    if (end->conn == NULL || ngtcp2_conn_get_expiry(end->conn) > end->now)
        return;
    int wrong = ngtcp2_conn_handle_expiry(end->conn, end->now);
    if (wrong)
        guest_fail(end->why, "ngtcp2_conn_handle_expiry: %s", ngtcp2_strerror(wrong));
}

/* The next packet, or no bytes. */
static ngtcp2_ssize next_packet(struct end *end, uint8_t *out, ngtcp2_pkt_info *info) {
    static const uint8_t ZEROS[1 << 16];
    struct guest_data *data = &end->data;
    size_t some = data->unwritten < sizeof ZEROS ? (size_t)data->unwritten : sizeof ZEROS;
    int writes = end->stream >= 0 && (some > 0 || data->closes);
    uint32_t flags = writes && data->closes && some == data->unwritten ? NGTCP2_WRITE_STREAM_FLAG_FIN : 0;
    ngtcp2_vec piece = {(uint8_t *)ZEROS, some};
    ngtcp2_ssize written = -1;
    ngtcp2_ssize size = ngtcp2_conn_writev_stream(end->conn, NULL, info, out, end->settings.max_tx_udp_payload_size, &written,
                                                  flags, writes ? end->stream : -1, &piece, writes ? 1 : 0, end->now);
    if (written > 0)
        guest_wrote(data, (uint64_t)written);
    if (written >= 0 && flags)
        data->closes = 0;
    if (size < 0)
        guest_fail(end->why, "ngtcp2_conn_writev_stream: %s", ngtcp2_strerror((int)size));
    return size < 0 ? 0 : size;
}

static uint32_t poll_transmit(void *state, uint64_t now_ns, struct paceline_batch *batch) {
    struct end *end = state;
    (void)now_ns; /* that of the step */
    if (end->conn == NULL || !end->stirred || end->why[0] != 0)
        return 0;
    if (end->sends && end->stream < 0)
        (void)ngtcp2_conn_open_uni_stream(end->conn, &end->stream, NULL); /* refused until the handshake is over */
    if (!end->in_burst)
        end->in_burst = 1, end->burst_left = ngtcp2_conn_get_send_quantum(end->conn);
    ngtcp2_pkt_info info = {0};
    ngtcp2_ssize size = end->burst_left > 0 ? next_packet(end, batch->data, &info) : 0;
    if (size == 0) {
        end->stirred = end->in_burst = 0;
        ngtcp2_conn_update_pkt_tx_time(end->conn, end->now);
        return 0;
    }
    end->burst_left -= end->burst_left < (size_t)size ? end->burst_left : (size_t)size;
    batch->size_bytes = batch->segment_size_bytes = (uint32_t)size;
    batch->ecn = info.ecn;
    return 1;
}

static uint64_t next_timer(void *state) {
    struct end *end = state;
    uint64_t due = end->conn == NULL ? UINT64_MAX : ngtcp2_conn_get_expiry(end->conn);
    if (due == UINT64_MAX)
        return PACELINE_NONE;
    return (due <= end->now ? end->now + TIMER_FLOOR : due) - ORIGIN;
}

static void write_data(void *state, uint64_t now_ns, uint64_t bytes, uint8_t stop, uint8_t close) {
    struct end *end = state;
    at(end, now_ns);
    guest_write(&end->data, bytes, stop, close);
}

static uint64_t delivered(const void *state) {
    return ((const struct end *)state)->delivered;
}

static void stats(const void *state, struct paceline_stats *out) {
    const ngtcp2_conn *conn = ((const struct end *)state)->conn;
    if (conn == NULL)
        return;
    const ngtcp2_conn_stat *stat = &conn->cstat;
    out->cwnd_bytes = stat->cwnd, out->in_flight_bytes = stat->bytes_in_flight;
    if (stat->pacing_interval_m > 0) /* 1/1024 ns a byte */
        out->pacing_rate_bps = 8 * (1000000000ull << 10) / stat->pacing_interval_m;
    if (stat->delivery_rate_sec > 0)
        out->delivery_rate_bps = 8 * stat->delivery_rate_sec;
    if (stat->min_rtt != UINT64_MAX && stat->min_rtt > 0)
        out->latest_rtt_ns = stat->latest_rtt, out->srtt_ns = stat->smoothed_rtt, out->min_rtt_ns = stat->min_rtt;
    out->acknowledged_bytes = conn->rst.delivered;
    out->sent_packets = stat->pkt_sent, out->lost_packets = stat->pkt_lost;
    out->app_limited = conn->rst.app_limited != 0;
    if (conn->cc_algo == NGTCP2_CC_ALGO_BBR && conn->bbr.bw > 0)
        out->bandwidth_bps = 8 * conn->bbr.bw;
}

static paceline_string phase(const void *state) {
    /* By ngtcp2_bbr_state. */
    static const char *const STATES[] = {"", "Startup", "Drain", "ProbeBW_DOWN", "ProbeBW_CRUISE", "ProbeBW_REFILL",
                                         "ProbeBW_UP", "ProbeRTT"};
    const ngtcp2_conn *conn = ((const struct end *)state)->conn;
    int is_bbr = conn != NULL && conn->cc_algo == NGTCP2_CC_ALGO_BBR;
    return guest_text(is_bbr ? STATES[conn->bbr.state] : "");
}

static uint32_t failure(const void *state, char *message, size_t message_size) {
    return guest_failed(((const struct end *)state)->why, message, message_size);
}

GUEST_EXPORT uint32_t paceline_stack_get(size_t index, struct paceline_stack *out, size_t out_size) {
    static const struct paceline_stack TABLE = {
        .abi_version = PACELINE_ENDPOINT_ABI_VERSION,
        .table_size = sizeof(struct paceline_stack),
        .name = PACELINE_STRING("ngtcp2"),
        .summary = PACELINE_STRING("ngtcp2, without cryptography"),
        .version = PACELINE_STRING(NGTCP2_VERSION),
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
        .controllers = PACELINE_STRING("bbr,cubic,reno"),
        .failure = failure,
        .phase = phase,
    };
    return guest_table(&TABLE, index, out, out_size);
}
