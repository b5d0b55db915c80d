#include "collectives/transport/connections/tls.hpp"

#include <openssl/core_names.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <openssl/params.h>
#include <openssl/ssl.h>

#include <algorithm>
#include <cassert>
#include <cstring>
#include <new>

namespace farandole {

namespace {

constexpr const char* cipher_suite = "TLS_AES_128_GCM_SHA256";
constexpr unsigned char cipher_number[2] = {0x13, 0x01};
/// Identifies the key, not the job, because it is sent in the clear.
constexpr std::string_view key_name = "farandole 1";
/// Greatest size of the plaintext of one record.
constexpr std::size_t record_bytes = 16384;

} // namespace

void derive_key(std::span<const unsigned char> secret, std::string_view purpose,
                std::span<unsigned char> key) {
  auto* kdf = EVP_KDF_fetch(nullptr, "HKDF", nullptr);
  auto* context = EVP_KDF_CTX_new(kdf);
  EVP_KDF_free(kdf);
  char digest[] = "SHA256";
  OSSL_PARAM params[] = {
      OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, digest, 0),
      OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_KEY, const_cast<unsigned char*>(secret.data()),
                                        secret.size()),
      OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_INFO, const_cast<char*>(purpose.data()),
                                        purpose.size()),
      OSSL_PARAM_construct_end(),
  };
  [[maybe_unused]] int done = EVP_KDF_derive(context, key.data(), key.size(), params);
  assert(done == 1);
  EVP_KDF_CTX_free(context);
}

namespace {

using key_bytes = std::array<unsigned char, 32>;

/// OpenSSL takes an external key in the form of a session that could be resumed.
SSL_SESSION* as_session(SSL* ssl) {
  const auto* key = static_cast<const key_bytes*>(SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl)));
  auto* session = SSL_SESSION_new();
  const auto* cipher = SSL_CIPHER_find(ssl, cipher_number);
  if (!session || !cipher || !SSL_SESSION_set1_master_key(session, key->data(), key->size()) ||
      !SSL_SESSION_set_cipher(session, cipher) ||
      !SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION)) {
    SSL_SESSION_free(session);
    return nullptr;
  }
  return session;
}

int offer_key(SSL* ssl, const EVP_MD* digest, const unsigned char** id, std::size_t* length,
              SSL_SESSION** session) {
  *id = nullptr;
  *length = 0;
  *session = nullptr;
  // The digest is null in the first hello, and that of our only suite afterwards.
  if (digest && !EVP_MD_is_a(digest, "SHA256"))
    return 0;
  *id = reinterpret_cast<const unsigned char*>(key_name.data());
  *length = key_name.size();
  *session = as_session(ssl);
  return *session ? 1 : 0;
}

int find_key(SSL* ssl, const unsigned char* id, std::size_t length, SSL_SESSION** session) {
  bool ours = length == key_name.size() && std::memcmp(id, key_name.data(), length) == 0;
  *session = ours ? as_session(ssl) : nullptr;
  return 1;
}

SSL_CTX* make_context(const SSL_METHOD* method, key_bytes& key) {
  auto* context = SSL_CTX_new(method);
  if (context == nullptr)
    throw std::bad_alloc(); // the only reason why SSL_CTX_new() fails here
  SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION);
  SSL_CTX_set_max_proto_version(context, TLS1_3_VERSION);
  [[maybe_unused]] int set = SSL_CTX_set_ciphersuites(context, cipher_suite);
  assert(set == 1);
  SSL_CTX_set_num_tickets(context, 0);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_TICKET);
  SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS);
  // Without a certificate a handshake can succeed only with the key; a peer that offers another method is
  // refused.
  SSL_CTX_set_verify(context, SSL_VERIFY_NONE, nullptr);
  SSL_CTX_set_app_data(context, &key);
  return context;
}

BIO* memory_buffer() {
  auto* bio = BIO_new(BIO_s_mem());
  assert(bio);
  BIO_set_mem_eof_return(bio, -1); // empty means "later", not "never"
  return bio;
}

std::string openssl_reason() {
  auto code = ERR_peek_last_error();
  const char* text = code ? ERR_reason_error_string(code) : nullptr;
  return text ? text : "the peer broke off";
}

} // namespace

tls_credentials::tls_credentials(std::string_view secret, std::string_view purpose) {
  derive_key({reinterpret_cast<const unsigned char*>(secret.data()), secret.size()}, purpose, key_);
  client_ = make_context(TLS_client_method(), key_);
  server_ = make_context(TLS_server_method(), key_);
  SSL_CTX_set_psk_use_session_callback(client_, offer_key);
  SSL_CTX_set_psk_find_session_callback(server_, find_key);
}

tls_credentials::~tls_credentials() {
  SSL_CTX_free(client_);
  SSL_CTX_free(server_);
  OPENSSL_cleanse(key_.data(), key_.size());
}

tls_session::tls_session(std::shared_ptr<const tls_credentials> credentials, tls_side side)
    : credentials_(std::move(credentials)) {
  bool client = side == tls_side::client;
  ssl_ = SSL_new(client ? credentials_->client_ : credentials_->server_);
  assert(ssl_);
  SSL_set_bio(ssl_, memory_buffer(), memory_buffer());
  if (client)
    SSL_set_connect_state(ssl_);
  else
    SSL_set_accept_state(ssl_);
  awaits_hello_ = !client;
}

tls_session::~tls_session() {
  SSL_free(ssl_);
}

error tls_session::fail(std::string_view text) {
  state_ = tls_state::failed;
  error problem{error_kind::disconnected, std::string{text} + ": " + openssl_reason()};
  ERR_clear_error();
  return problem;
}

void tls_session::take_wire(std::vector<std::byte>& wire) {
  auto* output = SSL_get_wbio(ssl_);
  auto pending = BIO_ctrl_pending(output);
  if (pending == 0)
    return;
  auto before = wire.size();
  wire.resize(before + pending);
  [[maybe_unused]] int got = BIO_read(output, wire.data() + before, static_cast<int>(pending));
  assert(got == static_cast<int>(pending));
}

error tls_session::feed(std::span<const std::byte> received, std::vector<std::byte>& plain,
                        std::vector<std::byte>& wire) {
  if (state_ == tls_state::failed)
    return {error_kind::disconnected, "the session has failed before"};
  ERR_clear_error();
  if (!received.empty()) {
    [[maybe_unused]] int put =
        BIO_write(SSL_get_rbio(ssl_), received.data(), static_cast<int>(received.size()));
    assert(put == static_cast<int>(received.size()));
  }
  auto problem = advance(plain);
  const auto before = wire.size();
  take_wire(wire);
  if (!problem && awaits_hello_)
    problem = look_for_hello(received, wire.size() > before);
  return problem;
}

// OpenSSL waits for the rest of a record of any kind, and of a hello that is split over several records. A
// listener does not: the hello of a member is always its first record, and other peers must not hold a place.
error tls_session::look_for_hello(std::span<const std::byte> received, bool answered) {
  const auto entry = std::min(received_bytes_, first_.size());
  std::copy_n(received.begin(), std::min(received.size(), first_.size() - entry), first_.begin() + entry);
  received_bytes_ += received.size();
  awaits_hello_ = !answered;
  const auto first = std::span(first_).first(std::min(received_bytes_, first_.size()));
  if (answered || received_bytes_ < first_record_bytes(first))
    return {};
  state_ = tls_state::failed;
  return {
      error_kind::disconnected,
      "the peer does not know the job's secret or does not speak TLS 1.3: it does not begin with a hello"};
}

error tls_session::advance(std::vector<std::byte>& plain) {
  if (state_ == tls_state::handshaking) {
    int done = SSL_do_handshake(ssl_);
    if (done != 1) {
      int code = SSL_get_error(ssl_, done);
      return code == SSL_ERROR_WANT_READ || code == SSL_ERROR_WANT_WRITE
                 ? error{}
                 : fail("the peer does not know the job's secret or does not speak TLS 1.3");
    }
    // A full handshake would need a certificate, and this library has none. This check gives a clear error.
    if (!SSL_session_reused(ssl_))
      return fail("the peer did not use the job's secret");
    state_ = tls_state::open;
  }
  std::array<std::byte, record_bytes> record;
  while (state_ == tls_state::open) {
    int got = SSL_read(ssl_, record.data(), static_cast<int>(record.size()));
    if (got > 0) {
      plain.insert(plain.end(), record.begin(), record.begin() + got);
      continue;
    }
    switch (SSL_get_error(ssl_, got)) {
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE:
      return {};
    case SSL_ERROR_ZERO_RETURN:
      state_ = tls_state::closed;
      return {};
    default:
      return fail("received data does not authenticate: it was changed on the way");
    }
  }
  return {};
}

error tls_session::seal(std::span<const std::byte> plain, std::vector<std::byte>& wire) {
  if (state_ != tls_state::open && state_ != tls_state::closed)
    return {error_kind::disconnected, "the session is not open"};
  ERR_clear_error();
  while (!plain.empty()) {
    auto part = plain.first(std::min<std::size_t>(plain.size(), std::size_t{1} << 20));
    int put = SSL_write(ssl_, part.data(), static_cast<int>(part.size()));
    if (put <= 0)
      return fail("sealing failed");
    take_wire(wire);
    plain = plain.subspan(static_cast<std::size_t>(put));
  }
  return {};
}

error tls_session::export_key(std::string_view label, std::span<const std::byte> context,
                              std::span<unsigned char> key) {
  if (state_ != tls_state::open)
    return {error_kind::disconnected, "the session is not open"};
  ERR_clear_error();
  const int done =
      SSL_export_keying_material(ssl_, key.data(), key.size(), label.data(), label.size(),
                                 reinterpret_cast<const unsigned char*>(context.data()), context.size(), 1);
  return done == 1 ? error{} : fail("exporting a key failed");
}

void tls_session::finish(std::vector<std::byte>& wire) {
  if (state_ != tls_state::open && state_ != tls_state::closed)
    return;
  SSL_shutdown(ssl_);
  ERR_clear_error();
  take_wire(wire);
}

} // namespace farandole
