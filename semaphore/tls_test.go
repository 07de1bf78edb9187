package semaphore_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/sirupsen/logrus"
	"github.com/stretchr/testify/require"

	"github.com/redsem/redsem/internal/redistest"
	"github.com/redsem/redsem/logger"
	"github.com/redsem/redsem/redisadapter/redigoadapter"
	"github.com/redsem/redsem/semaphore"
)

// authority signs certificates.
type authority struct {
	t    *testing.T
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	a := &authority{t: t, dir: t.TempDir()}
	a.cert, a.key = a.issue("ca", &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
	return a
}

// issue writes NAME.crt and NAME.key.
func (a *authority) issue(name string, template *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	a.t.Helper()
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	template.Subject = pkix.Name{CommonName: name}
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(a.t, err)
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	require.NoError(a.t, err)
	private, err := x509.MarshalECPrivateKey(key)
	require.NoError(a.t, err)
	for file, block := range map[string]*pem.Block{
		name + ".crt": {Type: "CERTIFICATE", Bytes: der},
		name + ".key": {Type: "EC PRIVATE KEY", Bytes: private},
	} {
		require.NoError(a.t, os.WriteFile(a.path(file), pem.EncodeToMemory(block), 0o600))
	}
	cert, err := x509.ParseCertificate(der)
	require.NoError(a.t, err)
	return cert, key
}

func (a *authority) path(file string) string { return filepath.Join(a.dir, file) }

// The connection is the pool's business: with TLS, a certificate for both sides and a
// password everything works, and no secret is told to anybody.
func TestTLSWithClientCertificatesAndAPassword(t *testing.T) {
	a := newAuthority(t)
	a.issue("server", &x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
	a.issue("client", &x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	addr := listener.Addr().String()
	_, port, _ := net.SplitHostPort(addr)
	require.NoError(t, listener.Close())
	rights, err := redistest.WithUser("../docs/security.md")
	require.NoError(t, err)
	redistest.Start(t, append(rights, "--tls-port", port, "--tls-auth-clients", "yes", "--tls-ca-cert-file", a.path("ca.crt"),
		"--tls-cert-file", a.path("server.crt"), "--tls-key-file", a.path("server.key"))...)

	own, err := tls.LoadX509KeyPair(a.path("client.crt"), a.path("client.key"))
	require.NoError(t, err)
	roots := x509.NewCertPool()
	roots.AddCert(a.cert)
	dial := func(password string, certificates ...tls.Certificate) *semaphore.Semaphore {
		config := &tls.Config{RootCAs: roots, Certificates: certificates}
		pool := &redis.Pool{MaxIdle: 4, Dial: func() (redis.Conn, error) {
			return redis.Dial("tcp", addr, redis.DialUseTLS(true), redis.DialTLSConfig(config),
				redis.DialUsername(redistest.User), redis.DialPassword(password))
		}}
		t.Cleanup(func() { pool.Close() })
		var said bytes.Buffer
		log := logrus.New()
		log.SetOutput(&said)
		log.SetLevel(logrus.DebugLevel)
		t.Cleanup(func() {
			require.False(t, strings.Contains(said.String(), redistest.Password), "the password is in the log")
		})
		s, err := semaphore.New(t.Name(), redigoadapter.New(pool), logger.NewLogrus(log, logger.Debug, t.Name()))
		require.NoError(t, err)
		return s
	}

	s := dial(redistest.Password, own)
	held, err := s.Acquire(context.Background())
	require.NoError(t, err)
	next := wants(t, dial(redistest.Password, own), 1)
	await(t, func() bool {
		snapshot, err := s.Inspect(context.Background())
		require.NoError(t, err)
		return snapshot.WaiterCount == 1
	})
	_, err = held.Release(context.Background())
	require.NoError(t, err)
	_, err = (<-next).Release(context.Background())
	require.NoError(t, err)

	_, err = dial(redistest.Password).TryLock()
	require.ErrorIs(t, err, semaphore.ErrRedis, "without a certificate")
	require.NotContains(t, err.Error(), redistest.Password)
	_, err = dial("wrong password", own).TryLock()
	require.ErrorIs(t, err, semaphore.ErrRedis)
	require.ErrorContains(t, err, "WRONGPASS")
	require.NotContains(t, err.Error(), "wrong password")
}
