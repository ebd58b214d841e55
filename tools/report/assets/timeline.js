// The timeline: spans on rows, drawn on a canvas. Spans of a row do not overlap and are sorted, so
// that what is visible is found by bisection, and at most one span is drawn a pixel.
(function () {
  'use strict';
  var source = document.getElementById('timeline-data');
  var canvas = document.getElementById('spans');
  if (!source || !canvas || !canvas.getContext) return;
  var data = JSON.parse(source.textContent);
  var overview = document.getElementById('overview');
  var tip = document.getElementById('tip');
  var picked = document.getElementById('picked');
  var find = document.getElementById('find');
  var colourBy = document.getElementById('colour');
  var RULER = 22, BAND = (data.bands[0] || []).length ? 18 : 0, ROW = 26, GAP = 6, LABEL = 14, LOCAL = ['slice', 'unstack', 'accumulate', 'stack'];
  var lanes = data.lanes.map(function (lane) {
    var n = lane.start.length, start = new Float64Array(n), end = new Float64Array(n), at = 0;
    for (var i = 0; i < n; ++i) {
      at += lane.start[i];
      start[i] = at;
      end[i] = at + lane.length[i];
    }
    return { name: lane.name, program: lane.program, host: lane.host, start: start, end: end, names: lane.names,
      categories: lane.categories, micro: lane.micro, phase: lane.phase };
  });
  var total = Math.max(data.step, 1), from = 0, to = total, width = 0, height = 0;
  lanes.forEach(function (lane) { if (lane.end.length) total = Math.max(total, lane.end[lane.end.length - 1]); });
  to = total;
  var matches = null, style = {}, whole = null;

  function readStyle() {
    whole = null;
    var css = getComputedStyle(document.documentElement);
    var value = function (name) { return css.getPropertyValue(name).trim(); };
    style = { ink: value('--ink'), soft: value('--soft'), line: value('--line'), wash: value('--wash'), card: value('--card'),
      own: value('--own') };
    style.kind = data.categories.map(function (c) {
      return value(LOCAL.indexOf(c) >= 0 ? '--c-local' : '--c-' + c) || value('--c-other');
    });
    style.phase = data.phases.map(function (p) {
      return p === 'forward' ? value('--c-gemm') : p === 'backward' ? value('--c-all-gather') : p === 'update' ?
        value('--c-optimizer') : value('--c-copy');
    });
    style.micro = ['--ax0', '--ax1', '--ax2', '--ax3', '--ax4', '--ax5'].map(value);
  }
  function colourOf(lane, i) {
    var mode = colourBy ? colourBy.value : 'kind';
    if (mode === 'phase') return style.phase[lane.phase[i]];
    if (mode === 'micro') return style.micro[lane.micro[i] % style.micro.length];
    return style.kind[lane.categories[i]];
  }
  function duration(ns) {
    var units = [[1e9, 's'], [1e6, 'ms'], [1e3, 'µs'], [1, 'ns']];
    for (var u = 0; u < units.length; ++u) {
      if (Math.abs(ns) >= units[u][0] || u === 3) return Number((ns / units[u][0]).toPrecision(4)) + ' ' + units[u][1];
    }
  }
  function firstEndingAfter(lane, time) {
    var low = 0, high = lane.end.length;
    while (low < high) {
      var middle = (low + high) >> 1;
      if (lane.end[middle] > time) high = middle; else low = middle + 1;
    }
    return low;
  }
  function sized(target, h) {
    var ratio = window.devicePixelRatio || 1, w = target.parentNode.clientWidth;
    target.style.height = h + 'px';
    target.width = Math.max(1, Math.round(w * ratio));
    target.height = Math.round(h * ratio);
    var context = target.getContext('2d');
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    return context;
  }
  function rowTop(r) { return RULER + BAND + r * (ROW + LABEL + GAP) + LABEL; }
  function matched(lane, i) { return !matches || matches[lane.names[i]] || matches[-1 - lane.categories[i]]; }

  function drawRow(context, lane, y, h, w, t0, t1, text) {
    var scale = w / (t1 - t0), n = lane.start.length, pixel = -1, covered = 0, longest = 0, colour = '', alpha = 1;
    context.fillStyle = style.wash;
    context.fillRect(0, y, w, h);
    // Spans narrower than a pixel are drawn together: as strong as they fill it, in the longest one's colour.
    function flush() {
      if (pixel < 0) return;
      context.globalAlpha = alpha * Math.max(0.25, Math.min(1, covered));
      context.fillStyle = colour;
      context.fillRect(pixel, y, 1, h);
      pixel = -1;
    }
    for (var i = firstEndingAfter(lane, t0); i < n && lane.start[i] < t1; ++i) {
      var x0 = Math.max(0, (lane.start[i] - t0) * scale), x1 = Math.min(w, (lane.end[i] - t0) * scale);
      var shown = matched(lane, i);
      if (x1 - x0 < 1) {
        if (Math.floor(x0) !== pixel) {
          flush();
          pixel = Math.floor(x0);
          covered = longest = 0;
          alpha = matches ? 0.13 : 1;
        }
        covered += x1 - x0;
        if (x1 - x0 >= longest || (matches && shown && alpha < 1)) {
          longest = x1 - x0;
          colour = colourOf(lane, i);
        }
        if (matches && shown) { alpha = 1; covered = 1; }
        continue;
      }
      flush();
      context.globalAlpha = shown ? 1 : 0.13;
      context.fillStyle = colourOf(lane, i);
      context.fillRect(x0, y, x1 - x0 > 3 ? x1 - x0 - 0.7 : x1 - x0, h);
      if (text && x1 - x0 > 46) {
        context.save();
        context.beginPath();
        context.rect(x0, y, x1 - x0 - 3, h);
        context.clip();
        context.fillStyle = light(context.fillStyle) ? '#10151b' : '#ffffff';
        context.fillText(data.names[lane.names[i]], x0 + 5, y + h / 2 + 4);
        context.restore();
      }
    }
    flush();
    context.globalAlpha = 1;
  }
  function light(colour) {
    var r = parseInt(colour.substr(1, 2), 16), g = parseInt(colour.substr(3, 2), 16), b = parseInt(colour.substr(5, 2), 16);
    return 0.299 * r + 0.587 * g + 0.114 * b > 140;
  }
  function drawRuler(context) {
    var span = to - from, step = Math.pow(10, Math.floor(Math.log10(span / (width / 90))));
    [1, 2, 5, 10].some(function (f) { return (step * f) * width / span >= 80 && (step *= f); });
    context.fillStyle = style.soft;
    context.strokeStyle = style.line;
    for (var t = Math.ceil(from / step) * step; t <= to; t += step) {
      var x = (t - from) * width / span;
      context.beginPath();
      context.moveTo(x + 0.5, RULER - 6);
      context.lineTo(x + 0.5, height);
      context.stroke();
      context.fillText(t === 0 ? '0' : duration(t), Math.min(x + 4, width - 50), 13);
    }
  }
  function drawBands(context) {
    var bands = data.bands[0] || [], scale = width / (to - from);
    bands.forEach(function (band, b) {
      var x0 = Math.max(0, (band.start - from) * scale), x1 = Math.min(width, (band.end - from) * scale);
      if (x1 <= 0 || x0 >= width || x1 - x0 < 1) return;
      context.fillStyle = style.own;
      context.globalAlpha = b % 2 ? 0.18 : 0.3;
      context.fillRect(x0, RULER, x1 - x0 - 1, BAND - 3);
      context.globalAlpha = 1;
      context.save();
      context.beginPath();
      context.rect(x0, RULER, x1 - x0 - 2, BAND);
      context.clip();
      context.fillStyle = style.ink;
      if (x1 - x0 > 20) context.fillText(x1 - x0 > 110 ? band.label : band.label.replace('micro-batch ', ''), x0 + 5, RULER + 12);
      context.restore();
    });
  }
  // The whole step as an image, made anew when its width, colours or matches change.
  function wholeStep() {
    var ratio = window.devicePixelRatio || 1, h = 34 / lanes.length;
    if (whole && whole.width === Math.round(width * ratio)) return whole;
    whole = document.createElement('canvas');
    whole.width = Math.round(width * ratio);
    whole.height = Math.round(34 * ratio);
    var context = whole.getContext('2d');
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    lanes.forEach(function (lane, r) { drawRow(context, lane, r * h, Math.max(1, h - 1), width, 0, total, false); });
    return whole;
  }
  function draw() {
    width = canvas.parentNode.clientWidth;
    height = rowTop(lanes.length) - LABEL + 2;
    var context = sized(canvas, height);
    context.font = '12px system-ui, sans-serif';
    drawRuler(context);
    drawBands(context);
    lanes.forEach(function (lane, r) {
      var y = rowTop(r);
      context.fillStyle = style.soft;
      context.fillText(lane.name, 0, y - 4);
      drawRow(context, lane, y, lane.host ? ROW / 2 : ROW, width, from, to, !lane.host);
    });
    var small = sized(overview, 34);
    small.drawImage(wholeStep(), 0, 0, width, 34);
    small.fillStyle = style.card;
    small.globalAlpha = 0.65;
    small.fillRect(0, 0, from / total * width, 34);
    small.fillRect(to / total * width, 0, width, 34);
    small.globalAlpha = 1;
    small.strokeStyle = style.ink;
    small.strokeRect(from / total * width + 0.5, 0.5, Math.max(2, (to - from) / total * width - 1), 33);
  }
  var waiting = false;
  function later() {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(function () { waiting = false; draw(); });
  }
  function show(t0, t1) {
    var span = Math.min(total, Math.max(20, t1 - t0));
    from = Math.min(Math.max(0, t0), total - span);
    to = from + span;
    later();
  }
  function zoom(factor, x) {
    var centre = from + (to - from) * (x === undefined ? 0.5 : x / width);
    show(centre - (centre - from) * factor, centre + (to - centre) * factor);
  }

  function at(event) {
    var box = canvas.getBoundingClientRect(), x = event.clientX - box.left, y = event.clientY - box.top;
    for (var r = 0; r < lanes.length; ++r) {
      if (y < rowTop(r) || y > rowTop(r) + ROW) continue;
      var lane = lanes[r], nanos = (to - from) / width;
      // The nearest span within two pixels.
      var t = from + x * nanos, i = firstEndingAfter(lane, t - 2 * nanos), best = -1, distance = 2.5 * nanos;
      for (; i < lane.start.length && lane.start[i] <= t + 2 * nanos; ++i) {
        var off = t < lane.start[i] ? lane.start[i] - t : t > lane.end[i] ? t - lane.end[i] : 0;
        if (off < distance) { distance = off; best = i; }
        if (off === 0) break;
      }
      return best < 0 ? null : { lane: lane, i: best, x: x, y: y };
    }
    return null;
  }
  function describe(hit, separator) {
    var lane = hit.lane, i = hit.i, parts = [data.names[lane.names[i]], data.categories[lane.categories[i]]];
    if (data.phases[lane.phase[i]]) parts.push(data.phases[lane.phase[i]]);
    parts.push(duration(lane.end[i] - lane.start[i]) + ', from ' + duration(lane.start[i]));
    if (data.micro_batches > 1) parts.push('micro-batch ' + (lane.micro[i] + 1));
    return parts.join(separator);
  }
  function hover(event) {
    var hit = at(event);
    tip.hidden = !hit;
    if (!hit) return;
    tip.textContent = describe(hit, '\n');
    tip.style.left = Math.max(0, Math.min(hit.x + 12, width - tip.offsetWidth)) + 'px';
    tip.style.top = (hit.y + 34 + 6 + 16) + 'px';
  }

  var pointers = {}, moved = 0;
  canvas.addEventListener('pointerdown', function (event) {
    pointers[event.pointerId] = event.clientX;
    moved = 0;
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener('pointermove', function (event) {
    var ids = Object.keys(pointers), box = canvas.getBoundingClientRect();
    if (pointers[event.pointerId] === undefined) return hover(event);
    var before = pointers[event.pointerId], delta = event.clientX - before;
    moved += Math.abs(delta);
    tip.hidden = true;
    if (ids.length === 1) {
      show(from - delta * (to - from) / width, to - delta * (to - from) / width);
    } else {
      var other = pointers[ids[0] === String(event.pointerId) ? ids[1] : ids[0]];
      var apart = Math.abs(before - other), now = Math.abs(event.clientX - other);
      if (apart > 8 && now > 8) zoom(apart / now, (event.clientX + other) / 2 - box.left);
    }
    pointers[event.pointerId] = event.clientX;
  });
  ['pointerup', 'pointercancel'].forEach(function (kind) {
    canvas.addEventListener(kind, function (event) {
      delete pointers[event.pointerId];
      var hit = kind === 'pointerup' && moved < 4 ? at(event) : null;
      if (hit) picked.textContent = describe(hit, ' · ');
    });
  });
  canvas.addEventListener('pointerleave', function () { tip.hidden = true; });
  canvas.addEventListener('wheel', function (event) {
    if (event.ctrlKey || event.metaKey) {
      event.preventDefault();
      zoom(Math.exp(Math.max(-60, Math.min(60, event.deltaY)) * 0.01), event.clientX - canvas.getBoundingClientRect().left);
    } else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      event.preventDefault();
      var by = (event.deltaX || event.deltaY) * (to - from) / width;
      show(from + by, to + by);
    }
  }, { passive: false });
  canvas.addEventListener('dblclick', function (event) { zoom(0.4, event.clientX - canvas.getBoundingClientRect().left); });
  canvas.addEventListener('keydown', function (event) {
    var by = (to - from) * 0.15, key = event.key;
    if (key === 'ArrowLeft' || key === 'a') show(from - by, to - by);
    else if (key === 'ArrowRight' || key === 'd') show(from + by, to + by);
    else if (key === '+' || key === '=' || key === 'w') zoom(0.6);
    else if (key === '-' || key === 's') zoom(1 / 0.6);
    else if (key === '0' || key === 'Home') show(0, total);
    else return;
    event.preventDefault();
  });
  function jump(event) {
    if (event.type === 'pointermove' && event.buttons === 0) return;
    var t = (event.clientX - overview.getBoundingClientRect().left) / width * total, half = (to - from) / 2;
    show(t - half, t + half);
  }
  overview.addEventListener('pointerdown', function (event) { overview.setPointerCapture(event.pointerId); jump(event); });
  overview.addEventListener('pointermove', jump);
  document.querySelectorAll('.controls button').forEach(function (button) {
    button.addEventListener('click', function () {
      if (button.dataset.do === 'fit') show(0, total); else zoom(button.dataset.do === 'in' ? 0.5 : 2);
    });
  });
  if (colourBy) colourBy.addEventListener('change', function () { whole = null; later(); });
  if (find) {
    find.addEventListener('input', function () {
      var text = find.value.trim().toLowerCase(), count = 0, sum = 0;
      matches = null;
      if (text) {
        matches = {};
        data.names.forEach(function (name, n) { if (name.toLowerCase().indexOf(text) >= 0) matches[n] = true; });
        data.categories.forEach(function (c, n) { if (c.toLowerCase().indexOf(text) >= 0) matches[-1 - n] = true; });
        lanes.forEach(function (lane) {
          for (var i = 0; !lane.host && i < lane.start.length; ++i) {
            if (matched(lane, i)) { ++count; sum += lane.end[i] - lane.start[i]; }
          }
        });
        picked.textContent = count + ' spans, ' + duration(sum) + ' together';
      }
      whole = null;
      later();
    });
  }
  readStyle();
  draw();
  window.addEventListener('resize', later);
  if (window.matchMedia) {
    var dark = window.matchMedia('(prefers-color-scheme: dark)');
    var changed = function () { readStyle(); later(); };
    if (dark.addEventListener) dark.addEventListener('change', changed);
  }
  // After page.js has chosen the colours for paper.
  ['beforeprint', 'afterprint'].forEach(function (kind) {
    window.addEventListener(kind, function () { readStyle(); draw(); });
  });
})();
