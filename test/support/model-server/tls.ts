/**
 * A certificate for localhost and 127.0.0.1 that it has signed itself, valid until 2126: no client trusts it, and nothing
 * but this key is kept secret by it. Made by `openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1
 * -nodes -days 36500 -subj /CN=localhost -addext subjectAltName=DNS:localhost,IP:127.0.0.1`.
 */
export const SELF_SIGNED = {
  key: `-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgTfMl5gDvlc0EUvhT
HTaUaP5eTLfSjzCpvULXAT9JsWWhRANCAAQbZBdUKam5uhPHwT++2oy8jJGj15SQ
/MCueldcg+hykTlj3DyuvSx5X5MpdzauxGJZsCQJ4Cuh5c5C69Vnoytm
-----END PRIVATE KEY-----`,
  cert: `-----BEGIN CERTIFICATE-----
MIIBmzCCAUGgAwIBAgIUOb2RL6W8MwnYXoafPj1Au4/4F14wCgYIKoZIzj0EAwIw
FDESMBAGA1UEAwwJbG9jYWxob3N0MCAXDTI2MTEyMDE5NDQwN1oYDzIxMjYxMDI3
MTk0NDA3WjAUMRIwEAYDVQQDDAlsb2NhbGhvc3QwWTATBgcqhkjOPQIBBggqhkjO
PQMBBwNCAAQbZBdUKam5uhPHwT++2oy8jJGj15SQ/MCueldcg+hykTlj3DyuvSx5
X5MpdzauxGJZsCQJ4Cuh5c5C69Vnoytmo28wbTAdBgNVHQ4EFgQUHk7rn3OLDaYD
gOp1RMOOTwo39UgwHwYDVR0jBBgwFoAUHk7rn3OLDaYDgOp1RMOOTwo39UgwDwYD
VR0TAQH/BAUwAwEB/zAaBgNVHREEEzARgglsb2NhbGhvc3SHBH8AAAEwCgYIKoZI
zj0EAwIDSAAwRQIhAPWhudPuA7H6Y0Me/Fk00sGWjKG9208OHzzoSS5+RqeZAiBZ
yQ6z/+ff0CLa4TcckY83hLLS/geHmU4C+ctXdhcARw==
-----END CERTIFICATE-----`,
};
