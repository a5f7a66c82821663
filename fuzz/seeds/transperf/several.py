from transperf import *
conn = conns(conn('bbr2', sender=0, start=0), conn('cubic', num=2, sender=1, start=0.5))
bw = var_bw(bw(50, dur=5), bw(10, dur=5))
rtt = [20, 40]
buf = bdp(1)
loss = 0.01
dur = 2 * 30
check = check_with_scores({'tput': 80})
