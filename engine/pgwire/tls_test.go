package pgwire_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"headroom/engine/pgwire"
)

func TestTCPAndTLS(t *testing.T) {
	tcp := server.TCPDSN() + " sslmode="
	exercise(t, tcp+"disable", "f")

	crt, key := certificate(t)
	c := connect(t)
	for _, q := range []string{
		fmt.Sprintf("alter system set ssl_cert_file = '%s'", crt), fmt.Sprintf("alter system set ssl_key_file = '%s'", key),
		"alter system set ssl = on", "select pg_reload_conf()",
	} {
		if _, err := c.Exec(context.Background(), q); err != nil {
			t.Fatal(err)
		}
	}
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if probe, err := pgwire.Connect(context.Background(), tcp+"require"); err == nil {
			probe.Close()
			break
		}
	}
	exercise(t, tcp+"verify-full sslrootcert="+crt, "t")
}

func exercise(t *testing.T, dsn, tls string) {
	t.Helper()
	c, err := pgwire.Connect(context.Background(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var rows []string
	c.Query("select ssl from pg_stat_ssl where pid = pg_backend_pid()")
	if _, err := c.Do(collect(&rows)); err != nil || rows[0] != "0:"+tls {
		t.Fatal(rows, err)
	}
	ctx, stop := context.WithTimeout(context.Background(), 30*time.Millisecond)
	defer stop()
	if _, err := c.Exec(ctx, "select pg_sleep(60)"); sqlstate(err) != "57014" {
		t.Fatal(err)
	}
	c.SetDeadline(time.Now().Add(30 * time.Millisecond))
	c.Query("select pg_sleep(1)")
	if _, err := c.Do(nil); err == nil || c.Lost() == nil {
		t.Fatal(err)
	}
}

func certificate(t *testing.T) (crt, key string) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{{127, 0, 0, 1}},
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &k.PublicKey, k)
	if err != nil {
		t.Fatal(err)
	}
	pk, err := x509.MarshalECPrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	st, err := os.Stat(server.DataDir)
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, kind string, b []byte) string {
		path := filepath.Join(server.DataDir, name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: b}), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(path, int(st.Sys().(*syscall.Stat_t).Uid), -1); err != nil {
			t.Fatal(err)
		}
		return path
	}
	return write("server.crt", "CERTIFICATE", der), write("server.key", "EC PRIVATE KEY", pk)
}
