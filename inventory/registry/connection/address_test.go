package connection

import (
	"net/netip"
	"testing"
)

func TestCheckAddress(t *testing.T) {
	for _, tc := range []struct {
		address string
		refused bool
	}{
		{"127.0.0.1", true},
		{"127.1.2.3", true},
		{"::1", true},
		{"0.0.0.0", true},
		{"0.1.2.3", true},
		{"::", true},
		{"169.254.169.254", true},
		{"169.254.1.1", true},
		{"fe80::1", true},
		{"fe80::1%eth0", true},
		{"224.0.0.1", true},
		{"ff02::1", true},
		{"255.255.255.255", true},
		{"fd00:ec2::254", true},
		{"fd20:ce::254", true},
		{"100.100.100.200", true},
		{"168.63.129.16", true},
		{"192.0.0.192", true},
		{"::ffff:127.0.0.1", true},
		{"::ffff:169.254.169.254", true},
		{"::127.0.0.1", true},
		{"64:ff9b::7f00:1", true},
		{"64:ff9b::a9fe:a9fe", true},
		{"64:ff9b:1::a9fe:a9fe", true},
		{"2002:7f00:1::", true},
		{"10.0.0.1", false},
		{"172.16.0.1", false},
		{"192.168.1.1", false},
		{"100.64.0.1", false},
		{"fd00::1", false},
		{"::ffff:10.0.0.1", false},
		{"64:ff9b::a00:1", false},
		{"8.8.8.8", false},
		{"2001:4860:4860::8888", false},
	} {
		if err := CheckAddress(netip.MustParseAddr(tc.address), false); (err != nil) != tc.refused {
			t.Errorf("%s: %v, want refused: %v", tc.address, err, tc.refused)
		}
	}
}

func TestCheckHost(t *testing.T) {
	for _, tc := range []struct {
		host    string
		refused bool
	}{
		{"2130706433", true},
		{"0x7f000001", true},
		{"0X7F.1", true},
		{"0177.0.0.1", true},
		{"127.1", true},
		{"017700000001", true},
		{"0xa9fea9fe", true},
		{"2852039166", true},
		{"169.254.43518", true},
		{"[::1]", true},
		{"[::ffff:7f00:1]", true},
		{"[64:ff9b::a9fe:a9fe]", true},
		{"localhost", true},
		{"LOCALHOST.", true},
		{"a.localhost", true},
		{"127.0.0.1.", true},
		{"10.1", false},
		{"0x0a000001", false},
		{"1.2.3.4.5", false},
		{"1.2.3.256", false},
		{"registry.example.com", false},
		{"localhost.example.com", false},
		{"7.example.com", false},
		{"0x7f000001.example.com", false},
	} {
		if err := CheckHost(tc.host, false); (err != nil) != tc.refused {
			t.Errorf("%s: %v, want refused: %v", tc.host, err, tc.refused)
		}
	}
	for _, h := range []string{"localhost", "127.0.0.1", "2130706433", "[::1]"} {
		if err := CheckHost(h, true); err != nil {
			t.Errorf("%s with loopback allowed: %v", h, err)
		}
	}
	if CheckHost("169.254.169.254", true) == nil {
		t.Error("loopback allowed lets metadata through")
	}
}
