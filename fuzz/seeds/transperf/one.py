conn = 'cubic'
bw = 10
rtt = 20
buf = 100
